// Linear layers with a quantized input and a float output → kernels that multiply in int8 and give float.
//   linear(dequantize(quantize(x, scale, zero_point)))
//     →   quantized::linear_with_input_q_dq_qweight_dq_output_fp32(x, scale, zero_point, packed)
// Behind the pass `lower`, which takes what has a quantized output.

#include "backends/float_output_kernels.h"
#include "ir/quantize_operators.h"
#include "modules/fault_conditions.h"
#include "modules/functional_weighted.h"
#include "modules/kernel_arguments.h"
#include "modules/weight_packing.h"
#include "passes/decision_index.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::kDequantize;
using ir::kQuantize;
using ir::Node;
using ir::Value;
using lowering::FloatOutputKernel;
using lowering::PostOp;

class FloatOutputLowering {
 public:
  FloatOutputLowering(GraphModule& gm, Report& report, modules::PackingRefusals& refusals)
      : gm_(gm), decisions_(report), refusals_(refusals), packing_(gm), engine_(modules::current_engine()) {}

  /// False when the engine refused a weight: the graph is half done, and the refusal known next time.
  bool run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (node->inputs().empty() || !reads_quantized(node) || is_quantized_behind(node)) continue;
      if (ir::is_module_call(node)) {
        lower_module(node);
      } else if (node->kind() == c10::aten::linear) {
        lower_functional(node);
      }
    }
    if (!packing_.pack_all(refusals_)) return false;
    ir::eliminate_dead_code(*gm_.graph);
    return true;
  }

 private:
  /// Whether an operator reads a tensor of quantized values.
  static bool reads_quantized(const Node* node) { return node->input(0)->node()->kind() == kDequantize; }

  /// The output is quantized: another kernel's place.
  static bool is_quantized_behind(const Node* node) {
    if (node->outputs().size() != 1) return true;
    const auto& uses = node->output()->uses();
    return uses.size() == 1 && uses.front().user->kind() == kQuantize;
  }

  void lower_module(Node* op) {
    const ir::ModuleCall& call = ir::call_of(gm_, op);
    const ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr || !weighted->weight_qparams || op->inputs().size() != 1) return;
    if (weighted->weight_qparams->dtype != c10::ScalarType::QInt8) return;
    const PostOp post_op = call.members.empty() ? PostOp::None : lowering::post_op_of(call.type.name);
    if (!call.members.empty() && post_op == PostOp::None) return;
    const Symbol root = call.members.empty() ? call.type : call.members.front().type;
    lower_to(lowering::float_output_kernel(engine_, root.name, post_op), op, *weighted, call.path);
  }

  void lower_functional(Node* op) {
    const ir::NodeState* state = ir::state_of(gm_, op);
    if (state == nullptr || !state->qconfig || op->input(1)->node()->kind() != kDequantize) return;
    const auto weighted = modules::functional_parameters(gm_, op);
    if (!weighted || weighted->weight_qparams->dtype != c10::ScalarType::QInt8) return;
    lower_to(lowering::float_output_kernel(engine_, "torch.nn.Linear", PostOp::None), op, *weighted,
             ir::scope_of(gm_, op).path);
  }

  void lower_to(const FloatOutputKernel* row, Node* op, const ir::Weighted& weighted,
                const std::string& path) {
    if (row == nullptr || modules::refusal_of(refusals_, row->prepack, weighted) != nullptr) return;
    const modules::KernelUse use{
        .gm = gm_, .op = op, .kernel = row->kernel, .input = nullptr, .weighted = &weighted};
    if (modules::fault_of(use, lowering::Precaution::KeepReference) != nullptr) return;
    std::vector<Value*> inputs = float_input(op);
    if (!row->reads_qparams) inputs.resize(1);
    inputs.push_back(packing_.packed(
        weighted, {.op = op, .kernel = row->kernel, .prepack = row->prepack, .path = path, .before = op}));
    if (!row->reads_qparams) inputs.push_back(modules::constant_before(gm_, op, /*reduce_range*/ false));
    Node* made = gm_.graph->create(c10::Symbol::fromQualString(std::string(row->kernel)), inputs, 1);
    made->insertBefore(op);
    made->setSourceRange(op->sourceRange());
    ir::take_scope(made, op);
    if (Decision* decision = decisions_.of(op)) decision->kernel = row->kernel;
    op->output()->replaceAllUsesWith(made->output());
  }

  /// The float tensor that the kernel quantizes once more, its scale and its zero point.
  std::vector<Value*> float_input(Node* op) const {
    Value* quantized = op->input(0)->node()->input(0);
    const Node* made_by = quantized->node();
    if (made_by->kind() == kQuantize) return {made_by->input(0), made_by->input(1), made_by->input(2)};
    Value* scale = modules::insert_before(gm_, op, "aten::q_scale", {quantized});
    Value* zero_point = modules::insert_before(gm_, op, "aten::q_zero_point", {quantized});
    scale->setType(c10::FloatType::get());
    zero_point->setType(c10::IntType::get());
    return {op->input(0), scale, zero_point};
  }

  GraphModule& gm_;
  DecisionIndex decisions_;
  modules::PackingRefusals& refusals_;
  modules::WeightPacking packing_;
  std::string engine_;
};

}  // namespace

void lower_float_outputs(GraphModule& gm, Report& report) {
  modules::lower_with_refusals(gm, report,
                               [](GraphModule& tried, Report& result, modules::PackingRefusals& refusals) {
                                 return FloatOutputLowering(tried, result, refusals).run();
                               });
}

}  // namespace tsq::passes
