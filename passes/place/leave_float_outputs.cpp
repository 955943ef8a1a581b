// The output of a linear layer that only float operators read is not rounded, where its kernel returns float
// or it is small and stays float; nor that of a convolution whose kernel returns float as fast.
//   matmul(view(dequantize(quantize(view(dequantize(quantize(linear(x))))))))   becomes
//   matmul(view(view(linear(x))))

#include <algorithm>
#include <array>
#include <ranges>
#include <unordered_set>

#include "backends/kernels/float_output.h"
#include "ir/analysis.h"
#include "ir/quantize_operators.h"
#include "operators/traits.h"
#include "operators/weighted.h"
#include "operators/zero_padding.h"
#include "passes/placement/passes.h"
#include "passes/placement/small_layers.h"

namespace tsq::passes {
namespace {

using ir::kDequantize;
using ir::kQuantize;
using ir::Model;
using ir::Node;
using ir::Value;

class FloatOutputs {
 public:
  explicit FloatOutputs(Model& gm) : gm_(gm), small_(small_layers(gm)) {}

  void run() {
    for (Node* node : std::views::reverse(ir::nodes_in_order(*gm_.graph))) {  // readers first
      if (!is_quantized_layer(node)) continue;
      Node* quantize = only_quantize(node->output());
      if (quantize != nullptr && gains_by_float(node) && !is_needed(quantize)) drop(quantize);
    }
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  bool is_quantized_layer(const Node* node) const {
    if (!ir::is_module_call(node)) return node->outputs().size() == 1 && is_observed(node);
    const ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm_, node));
    return weighted != nullptr && weighted->weight_qparams;
  }

  bool is_observed(const Node* node) const { return ir::observed_qconfig(gm_, node) != nullptr; }

  bool gains_by_float(const Node* layer) const {
    if (small_.contains(layer)) return true;
    const auto* kernel = kernels::float_output_kernel_of(gm_, layer);
    if (kernel == nullptr) return false;
    switch (kernel->reads) {
      case kernels::Reads::Float:
        return true;
      case kernels::Reads::FloatRange:
        return !would_round_twice(layer);
      case kernels::Reads::Bytes:
        return kernels::gives_float_for_free(gm_, layer);
    }
    return false;
  }

  /// Kernels that find the range of their input at run time round it onto codes of their own: where an int8
  /// kernel returns it, that costs more than rounding the output.
  bool would_round_twice(const Node* linear) const {
    const Node* dequantize = linear->input(0)->node();
    if (dequantize->kind() != kDequantize) return false;
    const Node* quantize = dequantize->input(0)->node();
    return quantize->kind() != kQuantize || is_observed(quantize->input(0)->node());
  }

  /// Dropped: nothing reads any more what it returns.
  static bool is_dropped(const Node* reader) {
    return reader->kind() == kQuantize &&
           std::ranges::all_of(reader->output()->uses(), [](const torch::jit::Use& use) {
             return use.user->kind() == kDequantize && use.user->output()->uses().empty();
           });
  }

  /// The quantize node that is a value's only reader.
  static Node* only_quantize(const Value* value) {
    Node* only = nullptr;
    for (const torch::jit::Use& use : value->uses()) {
      if (is_dropped(use.user)) continue;
      if (only != nullptr) return nullptr;
      only = use.user;
    }
    return only != nullptr && only->kind() == kQuantize ? only : nullptr;
  }

  /// What they read decides whether operators that only move values run on bytes. Concatenations have a
  /// kernel of their own, stacks have none.
  static bool moves(const Node* node) {
    return operators::moves_values(operators::traits_of(node)) || node->kind() == c10::aten::stack;
  }

  /// Whether a kernel reads the quantized value, also after operators that move it.
  bool is_needed(const Node* quantize) const {
    return std::ranges::any_of(quantize->output()->uses(), [&](const torch::jit::Use& use) {
      if (use.user->kind() != kDequantize) return true;
      return is_read_quantized(use.user->output());
    });
  }

  /// Whether leave_small_layers will leave it float.
  bool is_small(const Node* layer) const {
    return small_.contains(layer) && std::ranges::none_of(ir::users(layer->output()), [](const Node* user) {
             return user->kind() == kQuantize && !is_dropped(user);
           });
  }

  bool reads_quantized(const Node* reader) const {
    if (is_dropped(reader) || is_small(reader)) return false;
    if (reader->kind() == kQuantize || !reader->blocks().empty()) return true;
    if (reader->kind() == c10::prim::ListConstruct || is_padding(reader))
      return is_read_quantized(reader->output());
    if (!is_observed(reader))
      return reader->kind() == c10::prim::Return && reader->owningBlock()->owningNode() != nullptr;
    if (!moves(reader)) return true;
    const Node* quantize = only_quantize(reader->output());
    return quantize == nullptr ? is_read_quantized(reader->output()) : is_needed(quantize);
  }

  /// What fold_padding may put into the layer after it.
  bool is_padding(const Node* reader) const {
    constexpr std::array<std::size_t, 3> kDimensions{1, 2, 3};
    return reader->outputs().size() == 1 && std::ranges::any_of(kDimensions, [&](std::size_t dims) {
             return operators::zero_padding(gm_, reader, dims).has_value();
           });
  }

  bool is_read_quantized(const Value* value) const {
    return std::ranges::any_of(value->uses(),
                               [&](const torch::jit::Use& use) { return reads_quantized(use.user); });
  }

  void drop(Node* quantize) {
    std::vector<Node*> after;
    for (const torch::jit::Use& use : quantize->output()->uses()) {
      for (const Node* mover : movers(use.user->output())) after.push_back(only_quantize(mover->output()));
      use.user->output()->replaceAllUsesWith(quantize->input(0));
    }
    for (Node* next : after) {
      if (next != nullptr) drop(next);  // null: another input of the same operator came first
    }
  }

  /// The observed operators that read a value, or a list with it.
  std::vector<const Node*> movers(const Value* value) const {
    std::vector<const Node*> found;
    for (const torch::jit::Use& use : value->uses()) {
      if (use.user->kind() == c10::prim::ListConstruct) {
        for (const torch::jit::Use& of_list : use.user->output()->uses()) found.push_back(of_list.user);
      } else {
        found.push_back(use.user);
      }
    }
    std::erase_if(found, [&](const Node* reader) { return !is_observed(reader); });
    return found;
  }

  Model& gm_;
  std::unordered_set<const Node*> small_;
};

}  // namespace

void leave_float_outputs(Model& gm) { FloatOutputs(gm).run(); }

}  // namespace tsq::passes
