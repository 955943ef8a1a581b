// The output of a linear layer that only float operators read is not rounded.
//   matmul(view(dequantize(quantize(view(dequantize(quantize(linear(x))))))))   becomes
//   matmul(view(view(linear(x))))

#include <algorithm>
#include <array>
#include <unordered_map>

#include "backends/float_output_kernels.h"
#include "ir/quantize_operators.h"
#include "modules/fault_conditions.h"
#include "modules/weighted.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::kDequantize;
using ir::kQuantize;
using ir::Node;
using ir::Value;

/// Operators that move values and do not compute: what they read decides whether they run on bytes.
constexpr std::array kMoves{
    c10::aten::view,      c10::aten::reshape, c10::aten::transpose,  c10::aten::permute, c10::aten::flatten,
    c10::aten::unsqueeze, c10::aten::squeeze, c10::aten::contiguous, c10::aten::slice,   c10::aten::select};

class FloatOutputs {
 public:
  explicit FloatOutputs(GraphModule& gm) : gm_(gm), engine_(modules::current_engine()) {}

  void run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (!is_quantized_linear(node) || would_round_twice(node)) continue;
      Node* quantize = only_quantize(node->output());
      if (quantize != nullptr && !is_needed(quantize)) drop(quantize);
    }
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  bool is_quantized_linear(const Node* node) const {
    if (!ir::is_module_call(node)) {
      const auto targets = ir::targets(gm_, node);
      return is_observed(node) && std::ranges::any_of(targets, [](const Symbol& target) {
               return target.name == "torch.nn.functional.linear";
             });
    }
    const ir::ModuleCall& call = ir::call_of(gm_, node);
    const ir::Weighted* weighted = ir::weighted_of(call);
    const Symbol& root = call.members.empty() ? call.type : call.members.front().type;
    return weighted != nullptr && weighted->weight_qparams && root.name == "torch.nn.Linear";
  }

  bool is_observed(const Node* node) const {
    const ir::NodeState* state = ir::state_of(gm_, node);
    return state != nullptr && state->observed && state->qconfig;
  }

  /// Kernels that find the range of their input at run time round it onto codes of their own: where an int8
  /// kernel gives it, that costs more than rounding the output.
  bool would_round_twice(const Node* linear) const {
    const auto* kernel = lowering::float_output_kernel(engine_, "torch.nn.Linear", lowering::PostOp::None);
    if (kernel == nullptr || kernel->reads_qparams) return false;
    const Node* dequantize = linear->input(0)->node();
    if (dequantize->kind() != kDequantize) return false;
    const Node* quantize = dequantize->input(0)->node();
    return quantize->kind() != kQuantize || is_observed(quantize->input(0)->node());
  }

  /// The quantize node that is a value's only reader.
  static Node* only_quantize(const Value* value) {
    if (value->uses().size() != 1) return nullptr;
    Node* user = value->uses().front().user;
    return user->kind() == kQuantize ? user : nullptr;
  }

  static bool moves(const Node* node) { return std::ranges::find(kMoves, node->kind()) != kMoves.end(); }

  /// Whether a kernel reads the quantized value, also behind operators that move it.
  bool is_needed(const Node* quantize) const {
    return std::ranges::any_of(quantize->output()->uses(), [&](const torch::jit::Use& use) {
      if (use.user->kind() != kDequantize) return true;
      return std::ranges::any_of(use.user->output()->uses(),
                                 [&](const torch::jit::Use& read) { return reads_quantized(read.user); });
    });
  }

  bool reads_quantized(const Node* reader) const {
    if (reader->kind() == kQuantize || !reader->blocks().empty()) return true;
    if (!is_observed(reader))
      return reader->kind() == c10::prim::Return && reader->owningBlock()->owningNode() != nullptr;
    if (!moves(reader)) return true;
    const Node* quantize = only_quantize(reader->output());
    return quantize == nullptr || is_needed(quantize);
  }

  void drop(Node* quantize) {
    std::vector<Node*> behind;
    for (const torch::jit::Use& use : quantize->output()->uses()) {
      for (const torch::jit::Use& read : use.user->output()->uses()) {
        if (is_observed(read.user)) behind.push_back(only_quantize(read.user->output()));
      }
      use.user->output()->replaceAllUsesWith(quantize->input(0));
    }
    for (Node* next : behind) drop(next);
  }

  GraphModule& gm_;
  std::string engine_;
};

}  // namespace

void leave_float_outputs(GraphModule& gm) { FloatOutputs(gm).run(); }

}  // namespace tsq::passes
