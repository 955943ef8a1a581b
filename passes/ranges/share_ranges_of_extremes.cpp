// Rounding commutes with taking the larger or smaller of two values, so that what is compared needs no range
// of its own, and is rounded once.
//   obs3(maximum(obs1(a), obs2(b)))   becomes   obs3(maximum(obs3(a), obs3(b)))

#include <algorithm>
#include <map>
#include <vector>

#include "ir/analysis.h"
#include "operators/traits.h"
#include "passes/ranges/passes.h"

namespace tsq::passes {
namespace {

/// Whether a node compares two values, which rounding before or after it does not change.
bool is_extreme(const Node* node) {
  const auto* const row = operators::traits_of(node);
  return operators::has(row, operators::ElementwiseOfTwo) && operators::commutes_with_rounding(row);
}

/// The value that operators in front of this one alone have moved.
Value* unmoved(Value* value) {
  while (operators::moves_values(operators::traits_of(value->node())) && value->uses().size() == 1)
    value = value->node()->input(0);
  return value;
}

/// Maxima and minima of each other, and the values that they compare.
struct Tree {
  std::vector<const Node*> extremes{};
  std::vector<Value*> compared{};
};

void collect(Value* moved, Tree& tree) {
  Value* value = unmoved(moved);
  if (!is_extreme(value->node()) || value->uses().size() != 1) {
    tree.compared.push_back(value);
    return;
  }
  tree.extremes.push_back(value->node());
  for (Value* input : value->node()->inputs()) collect(input, tree);
}

/// Whether the tree alone reads a value that observer `index` sees, also where it is moved in between.
bool is_only_compared(const Value* value, std::size_t index, const Tree& tree) {
  const auto is_observed_alike = [&](const Node* node) {
    return node != nullptr && ir::is_observer(node) && ir::observer_index(node) == index;
  };
  return std::ranges::all_of(ir::users(value), [&](const Node* reader) {
    return std::ranges::find(tree.extremes, reader) != tree.extremes.end() ||
           is_observed_alike(ir::only_reader(reader)) ||
           (operators::moves_values(operators::traits_of(reader)) && reader->outputs().size() == 1 &&
            is_only_compared(reader->output(), index, tree));
  });
}

bool are_only_compared(const std::vector<Node*>& observers, const Tree& tree) {
  return std::ranges::all_of(observers, [&](const Node* observer) {
    return is_only_compared(observer->output(), ir::observer_index(observer), tree);
  });
}

bool round_alike(const ObserverSpec& one, const ObserverSpec& other) {
  const ResolvedObserver a = resolve(one);
  const ResolvedObserver b = resolve(other);
  return a.dtype == b.dtype && a.qscheme == b.qscheme && a.quant_min == b.quant_min &&
         a.quant_max == b.quant_max && !a.is_dynamic && !b.is_dynamic;
}

}  // namespace

bool share_ranges_of_extremes(Model& model, const PassContext& /*context*/) {
  bool changed = false;
  std::map<std::size_t, std::vector<Node*>> nodes_of;  // observers, by the entry that they name
  const auto nodes = ir::nodes_in_order(*model.graph);
  for (Node* node : nodes) {
    if (ir::is_observer(node)) nodes_of[ir::observer_index(node)].push_back(node);
  }
  for (const Node* observer : nodes) {
    if (!ir::is_observer(observer) || !is_extreme(unmoved(observer->input(0))->node())) continue;
    const std::size_t shared = ir::observer_index(observer);
    Tree tree;
    collect(observer->input(0), tree);
    for (const Value* value : tree.compared) {
      if (!ir::is_observer(value->node())) continue;
      const std::size_t own = ir::observer_index(value->node());
      if (own == shared || !round_alike(model.observers[own].spec, model.observers[shared].spec) ||
          !are_only_compared(nodes_of[own], tree))
        continue;
      for (Node* node : nodes_of[own]) ir::set_observer_index(node, shared);
      changed = true;
    }
  }
  return changed;
}

}  // namespace tsq::passes
