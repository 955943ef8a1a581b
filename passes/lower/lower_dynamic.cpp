// Weighted operators whose input is quantized at run time → the engine's dynamic kernels
// (torch/ao/quantization/fx/_lower_to_native_backend.py, _lower_dynamic_weighted_ref_module and
// _lower_dynamic_weighted_ref_functional; torch/ao/nn/quantized/dynamic).
//   linear(dequantize(quantize_per_tensor_dynamic(x)))   →   quantized::linear_dynamic(x, packed,
//   reduce_range)

#include <fmt/format.h>

#include "backends/kernels/dynamic_kernels.h"
#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/convolution_padding.h"
#include "operators/dynamic_input.h"
#include "operators/functional_weighted.h"
#include "passes/decision_index.h"
#include "passes/lower/passes.h"
#include "passes/lower/weight_packing.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;
using kernels::DynamicKernel;
using kernels::PostOp;
using operators::DynamicInput;

constexpr const char* kRemedy = "quantize for another engine, or give it another qconfig or none";

class DynamicLowering {
 public:
  DynamicLowering(Model& gm, Report& report, passes::PackingRefusals& refusals)
      : gm_(gm), decisions_(report), refusals_(refusals), packing_(gm) {}

  /// False when the engine refused a weight: the graph is half done, and the refusal known next time.
  bool run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (node->inputs().empty() || ir::keeps_reference(gm_, node)) continue;
      if (ir::is_module_call(node)) {
        lower_module(node);
      } else if (node->kind().is_aten()) {
        lower_functional(node);
      }
    }
    if (!packing_.pack_all(refusals_)) return false;
    ir::eliminate_dead_code(*gm_.graph);
    return true;
  }

 private:
  // L-09.
  void lower_module(Node* op) {
    ir::ModuleCall& call = ir::call_of(gm_, op);
    ir::Weighted* weighted = ir::weighted_of(call);
    const auto input = input_of(op);
    if (weighted == nullptr || !weighted->weight_qparams || !input || op->inputs().size() != 1) return;
    const PostOp post_op = call.members.empty() ? PostOp::None : kernels::post_op_of(call.type.name);
    if (!call.members.empty() && post_op == PostOp::None) return;
    const Symbol root = call.members.empty() ? call.type : call.members.front().type;
    const DynamicKernel* row = kernels::dynamic_kernel(root.name, post_op, weighted->weight_qparams->dtype);
    if (row == nullptr) return;
    if (const auto refusal = refusal_of(op, *row, weighted)) {
      weighted->weight_qparams.reset();
      return stay_float(op, *input, *refusal);
    }
    Value* padded = padded_input(*weighted, input->value, op);
    Value* packed = packed_for(op, *row, *weighted, call.path);
    // PyTorch's dynamic modules always reduce the range, its functions where the engine asks for it.
    replace(op, op, *row, {padded, packed}, ir::constant_before(gm_, op, true));
  }

  /// What a module with a dynamic QConfig reads; some inputs have no observer, and need none (D-21).
  std::optional<DynamicInput> input_of(const Node* op) const {
    if (const auto input = operators::dynamic_input(op->input(0))) return input;
    const ir::NodeState* state = ir::state_of(gm_, op);
    if (state == nullptr || !state->qconfig) return std::nullopt;
    const ResolvedObserver activation = resolve(state->qconfig->activation);
    if (!activation.is_dynamic) return std::nullopt;
    return DynamicInput{.value = const_cast<Value*>(op->input(0)), .dtype = activation.dtype};
  }

  /// torch.ao.nn.quantized.dynamic pads the float tensor where the padding is not the kernel's own.
  Value* padded_input(const ir::Weighted& weighted, Value* input, Node* before) {
    if (!operators::pads_outside(weighted)) return input;
    const std::string mode = weighted.padding_mode == "zeros" ? "constant" : weighted.padding_mode;
    return ir::insert_before(
        gm_, before, "aten::pad",
        {input, ir::constant_before(gm_, before, operators::explicit_padding(weighted)),
         ir::constant_before(gm_, before, mode), ir::constant_before(gm_, before, c10::IValue())});
  }

  // L-11; L-05: a function that is configured not to be quantized stays.
  void lower_functional(Node* op) {
    const ir::NodeState* state = ir::state_of(gm_, op);
    if (op->inputs().size() < 2 || (state != nullptr && !state->qconfig)) return;
    const auto input = operators::dynamic_input(op->input(0));
    const auto dtype = operators::functional_weight_dtype(op);
    if (!input || !dtype) return;
    Node* relu = relu_after(op);
    const DynamicKernel* row = functional_kernel(op, relu == nullptr ? PostOp::None : PostOp::ReLU, *dtype);
    if (row == nullptr) {
      relu = nullptr;
      row = functional_kernel(op, PostOp::None, *dtype);
    }
    if (row == nullptr) return;
    const auto weighted = operators::functional_parameters(gm_, op);
    if (const auto refusal = refusal_of(op, *row, weighted ? &*weighted : nullptr)) {
      op->replaceInput(1, op->input(1)->node()->input(0)->node()->input(0));
      return stay_float(op, *input, *refusal);
    }
    Value* packed = weighted ? packed_for(op, *row, *weighted, ir::scope_of(gm_, op).path)
                             : kernels::packed_at_run(gm_, op, row->prepack, op);
    if (packed != nullptr)
      replace(relu == nullptr ? op : relu, op, *row, {input->value, packed}, input->reduce_range);
  }

  /// Why the engine cannot run an operator; empty where it can. `weighted`: null where its weight is computed
  /// when it runs.
  std::optional<std::string> refusal_of(Node* op, const DynamicKernel& row,
                                        const ir::Weighted* weighted) const {
    for (const std::string_view kernel : {row.prepack, row.kernel}) {
      if (weighted == nullptr && kernel == row.kernel) continue;
      const kernels::KernelUse use{
          .gm = gm_, .op = op, .kernel = kernel, .input = nullptr, .weighted = weighted};
      if (const auto* fault = kernels::fault_of(use, kernels::Precaution::KeepReference))
        return std::string(fault->reason);
    }
    const std::string* refusal =
        weighted == nullptr ? nullptr : passes::refusal_of(refusals_, row.prepack, *weighted);
    return refusal == nullptr ? std::nullopt : std::optional(*refusal);
  }

  Value* packed_for(Node* op, const DynamicKernel& row, const ir::Weighted& weighted,
                    const std::string& path) {
    return packing_.packed(
        weighted, {.op = op, .kernel = row.kernel, .prepack = row.prepack, .path = path, .before = op});
  }

  const DynamicKernel* functional_kernel(const Node* op, PostOp post_op, c10::ScalarType dtype) const {
    for (const Symbol& target : ir::targets(gm_, op)) {
      const std::string_view module = operators::module_of_functional(target.name);
      if (!module.empty()) return kernels::dynamic_kernel(module, post_op, dtype);
    }
    return nullptr;
  }

  /// The ReLU that alone reads an operator's output; null where there is none.
  Node* relu_after(const Node* op) const {
    if (op->output()->uses().size() != 1) return nullptr;
    Node* user = op->output()->uses().front().user;
    if (user->outputs().size() != 1 || user->owningBlock() != op->owningBlock()) return nullptr;
    for (const Symbol& target : ir::targets(gm_, user)) {
      if (kernels::activation_post_op(target.name) == PostOp::ReLU) return user;
    }
    return nullptr;
  }

  /// Puts the kernel in place of `op` and what is after it up to `last`.
  void replace(Node* last, Node* op, const DynamicKernel& row, std::vector<Value*> inputs,
               Value* reduce_range) {
    if (row.takes_reduce_range) inputs.push_back(full_range_where_ignored(op, row, reduce_range));
    Node* made = gm_.graph->create(c10::Symbol::fromQualString(std::string(row.kernel)), inputs, 1);
    made->insertBefore(op);
    made->setSourceRange(op->sourceRange());
    ir::take_scope(made, op);
    if (Decision* decision = decisions_.of(op)) decision->kernel = row.kernel;
    last->output()->replaceAllUsesWith(made->output());
    made->output()->setDebugName(op->output()->debugName());  // the report's for passes to come
  }

  Value* full_range_where_ignored(Node* op, const DynamicKernel& row, Value* reduce_range) {
    const kernels::KernelUse use{.gm = gm_, .op = op, .kernel = row.kernel, .input = nullptr};
    const bool is_ignored = kernels::fault_of(use, kernels::Precaution::FullRange) != nullptr;
    return is_ignored ? ir::constant_before(gm_, op, false) : reduce_range;
  }

  /// Rounding alone would cost time and accuracy.
  void stay_float(Node* op, const DynamicInput& input, const std::string& problem) {
    op->replaceInput(0, input.value);
    Decision* decision = decisions_.of(op);
    if (decision == nullptr) return;
    decision->quantized = false;
    decision->reason = fmt::format("the engine has no kernel for it: {}", problem);
    decision->remedy = kRemedy;
  }

  Model& gm_;
  DecisionIndex decisions_;
  passes::PackingRefusals& refusals_;
  passes::WeightPacking packing_;
};

}  // namespace

void lower_dynamic(Model& gm, Report& report) {
  passes::lower_with_refusals(gm, report,
                              [](Model& tried, Report& result, passes::PackingRefusals& refusals) {
                                return DynamicLowering(tried, result, refusals).run();
                              });
}

}  // namespace tsq::passes
