// The output of a linear layer that only float operators read is not rounded, where its kernel returns float
// or it is small and stays float; nor that of a convolution whose kernel returns float as fast. What the
// model returns is worth the most: the last layer reads the codes of an int8 kernel with a kernel that finds
// its range, too.
//   matmul(observer(view(observer(linear(x)))))   becomes   matmul(view(linear(x)))

#include <algorithm>
#include <ranges>
#include <unordered_set>

#include "backends/choices/offers.h"
#include "backends/kernels/float_output.h"
#include "ir/analysis.h"
#include "operators/images/zero_padding.h"
#include "operators/traits.h"
#include "passes/match/value_flow.h"
#include "passes/place/attention_roundings.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"
#include "passes/place/small_layers.h"

namespace tsq::passes {
namespace {

using torch::jit::Use;

bool is_container(const Node* node) {
  return node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::TupleConstruct ||
         node->kind() == c10::prim::DictConstruct;
}

/// What a value holds: itself, or the elements of lists, tuples and dicts made for it.
void collect_elements(const Value* value, std::unordered_set<const Value*>& found) {
  found.insert(value);
  if (!is_container(value->node())) return;
  for (const Value* element : value->node()->inputs()) collect_elements(element, found);
}

/// The values that leave the model as bytes (E-12).
std::unordered_set<const Value*> quantized_outputs(const Model& model, const PassContext& context) {
  const Value* returned = model.graph->return_node()->input(0);
  const Node* made_by = returned->node();
  const bool has_elements =
      made_by->kind() == c10::prim::ListConstruct || made_by->kind() == c10::prim::TupleConstruct;
  std::unordered_set<const Value*> found;
  for (const int index : context.custom.output_quantized_indexes()) {
    const auto position = static_cast<std::size_t>(index);
    if (has_elements && position < made_by->inputs().size()) {
      collect_elements(made_by->input(position), found);
    } else if (!has_elements && position == 0) {
      collect_elements(returned, found);
    }
  }
  return found;
}

class FloatOutputs {
 public:
  FloatOutputs(Model& model, const PassContext& context)
      : model_(model),
        context_(context),
        small_(small_layers(model, context)),
        quantized_outputs_(quantized_outputs(model, context)),
        of_attention_(attention_roundings(model, context)) {}

  /// Whether it dropped an observer.
  bool run() {
    for (Node* node : std::views::reverse(ir::nodes_in_order(*model_.graph))) {  // readers first
      if (!is_quantized_layer(node)) continue;
      Node* rounding = only_rounding(node->output());
      if (rounding != nullptr && gains_by_float(node, rounding) && !is_needed(rounding)) drop(rounding);
    }
    ir::eliminate_dead_code(*model_.graph);
    return has_changed_;
  }

 private:
  bool is_quantized_layer(const Node* node) const {
    if (!ir::is_module_call(node)) return node->outputs().size() == 1 && is_observed(node);
    return int8_layer(model_, context_, node) != nullptr;
  }

  bool is_observed(const Node* node) const { return ir::observed_qconfig(model_, node) != nullptr; }

  bool gains_by_float(const Node* layer, const Node* rounding) {
    if (small_.contains(layer)) return true;
    const auto offer = kernels::float_output_offer(context_.target, model_, layer);
    if (!offer.may_be_taken()) return false;
    if (offer.row->reads == kernels::Form::Bytes)
      return kernels::stays_float_after(context_.target, model_, layer, /*activation=*/nullptr);
    return offer.row->reads == kernels::Form::Float || !would_round_twice(layer) ||
           ends_in_float(rounding->output());
  }

  /// Kernels that find the range of their input at run time are given the ends of the range of what an int8
  /// kernel returns, so that they find its codes. That takes the time of a dequantize and two copies, which
  /// is worth it for what the model returns.
  bool would_round_twice(const Node* linear) const {
    auto* input = const_cast<Value*>(linear->input(0));
    if (!is_rounded(model_, context_, input)) return false;
    const Value* before = exact(model_, input);
    return before == input || is_observed(before->node());
  }

  /// Whether no int8 kernel comes after a value: float operators alone make of it what forward returns.
  bool ends_in_float(const Value* rounded) {
    std::unordered_set<const Node*> seen;
    flowed_into_.clear();
    std::vector<const Value*> open{rounded};
    while (!open.empty()) {
      const Value* value = open.back();
      open.pop_back();
      if (quantized_outputs_.contains(value)) return false;
      for (const Use& use : value->uses()) {
        if (is_dropped(use.user) || !seen.insert(use.user).second) continue;
        // What blocks return goes on elsewhere.
        const bool is_within = use.user->owningBlock() != model_.graph->block();
        if (is_within || (!is_static_rounding(model_, use.user) && reads_quantized(use))) return false;
        const auto outputs = use.user->outputs();
        open.insert(open.end(), outputs.begin(), outputs.end());
      }
    }
    return true;
  }

  /// Dropped: nothing reads any more what it returns.
  bool is_dropped(const Node* reader) const {
    return is_static_rounding(model_, reader) && reader->output()->uses().empty();
  }

  /// The observer that rounds a value and is its only reader.
  Node* only_rounding(const Value* value) const {
    Node* only = nullptr;
    for (const Use& use : value->uses()) {
      if (is_dropped(use.user)) continue;
      if (only != nullptr) return nullptr;
      only = use.user;
    }
    return only != nullptr && is_static_rounding(model_, only) && !of_attention_.contains(only) ? only
                                                                                                : nullptr;
  }

  /// What they read decides whether operators that only move values run on bytes. Concatenations have a
  /// kernel of their own, stacks have none.
  static bool moves(const Node* node) {
    return operators::moves_values(operators::traits_of(node)) || node->kind() == c10::aten::stack;
  }

  /// Whether a kernel reads the rounded value, also after operators that move it.
  bool is_needed(const Node* rounding) {
    flowed_into_.clear();
    return is_needed_after_moves(rounding);
  }
  bool is_needed_after_moves(const Node* rounding) {
    return quantized_outputs_.contains(rounding->output()) || is_read_quantized(rounding->output());
  }

  /// Whether leave_small_layers will leave it float.
  bool is_small(const Node* layer) const {
    return small_.contains(layer) && std::ranges::none_of(ir::users(layer->output()), [&](const Node* user) {
             return is_static_rounding(model_, user) && !is_dropped(user);
           });
  }

  /// A standalone module's own configuration tells which inputs it takes quantized.
  bool is_taken_quantized(const Use& use) const {
    if (!ir::is_standalone(model_, use.user)) return false;
    const auto& indexes = ir::call_of(model_, use.user).standalone->input_quantized_indexes;
    return std::ranges::find(indexes, static_cast<int>(use.offset)) != indexes.end();
  }

  /// What a branch returns is read after the `if`; what goes into a loop or is returned by its body, in the
  /// body and after it. What a loop carries may flow into itself.
  bool is_read_after_flow(const Use& use) {
    return std::ranges::any_of(flows_to(use), [&](const Value* value) {
      return flowed_into_.insert(value).second && is_read_quantized(value);
    });
  }

  bool reads_quantized(const Use& use) {
    const Node* reader = use.user;
    if (is_dropped(reader) || is_small(reader) || of_attention_.contains(reader)) return false;
    if (is_static_rounding(model_, reader) || is_taken_quantized(use)) return true;
    if (!reader->blocks().empty() || reader->kind() == c10::prim::Return) return is_read_after_flow(use);
    if (is_channel_observer(model_, reader) || reader->kind() == c10::prim::ListConstruct ||
        is_padding(reader))
      return is_read_quantized(reader->output());
    if (!is_observed(reader)) return false;
    if (!moves(reader)) return true;
    const Node* rounding = only_rounding(reader->output());
    return rounding == nullptr ? is_read_quantized(reader->output()) : is_needed_after_moves(rounding);
  }

  /// What place_padding may put into the layer after it.
  bool is_padding(const Node* reader) const {
    return reader->outputs().size() == 1 &&
           (operators::zero_padding(model_, reader, 1) || operators::zero_padding(model_, reader, 2) ||
            operators::zero_padding(model_, reader, 3));
  }

  bool is_read_quantized(const Value* value) {
    return std::ranges::any_of(value->uses(), [&](const Use& use) { return reads_quantized(use); });
  }

  void drop(Node* rounding) {
    read_without_channels(rounding->output());
    std::vector<Node*> after;
    std::unordered_set<const Value*> seen;
    std::vector<const Node*> movers;
    collect_movers(rounding->output(), seen, movers);
    for (const Node* mover : movers) after.push_back(only_rounding(mover->output()));
    rounding->output()->replaceAllUsesWith(rounding->input(0));
    has_changed_ = true;
    for (Node* next : after) {
      if (next != nullptr) drop(next);  // null: another input of the same operator came first
    }
  }

  /// Small layers that stay float are not equalized: nothing is rounded for them.
  void read_without_channels(Value* value) const {
    const std::vector<Use> uses = value->uses();
    for (const Use& use : uses) {
      if (is_channel_observer(model_, use.user)) use.user->output()->replaceAllUsesWith(value);
    }
  }

  /// What holds a value further on: a list with it, or what blocks that it flows into make of it.
  static std::vector<const Value*> held_by(const Use& use) {
    if (use.user->kind() == c10::prim::ListConstruct) return {use.user->output()};
    return flows_to(use);
  }

  /// Collects the observed operators that read a value, or what holds it.
  void collect_movers(const Value* value, std::unordered_set<const Value*>& seen,
                      std::vector<const Node*>& found) const {
    if (!seen.insert(value).second) return;
    for (const Use& use : value->uses()) {
      if (is_observed(use.user)) found.push_back(use.user);
      for (const Value* holder : held_by(use)) collect_movers(holder, seen, found);
    }
  }

  Model& model_;
  const PassContext& context_;
  std::unordered_set<const Node*> small_;
  std::unordered_set<const Value*> quantized_outputs_;
  std::unordered_set<const Node*> of_attention_;    ///< roundings that need none before them
  std::unordered_set<const Value*> flowed_into_{};  ///< by what is_needed asks about
  bool has_changed_{false};
};

}  // namespace

bool leave_float_outputs(Model& model, const PassContext& context) {
  return FloatOutputs(model, context).run();
}

}  // namespace tsq::passes
