// Rounding commutes with taking the larger or smaller of two values, so that what is compared needs no range
// of its own, and is rounded once.
//   obs3(maximum(obs1(a), obs2(b)))   becomes   obs3(maximum(obs3(a), obs3(b)))

#include <algorithm>

#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

bool is_extreme(const Node* node) {
  return node->kind() == c10::aten::maximum || node->kind() == c10::aten::minimum;
}

/// Observer nodes by the entry that they name.
using ObserverNodes = std::map<std::size_t, std::vector<Node*>>;

/// The values that a tree of maxima and minima compares.
void collect_compared(Value* value, std::vector<Value*>& compared) {
  if (!is_extreme(value->node()) || value->uses().size() != 1) {
    compared.push_back(value);
    return;
  }
  for (Value* input : value->node()->inputs()) collect_compared(input, compared);
}

/// Whether nothing else reads what these observers see, also where it is only moved in between.
bool are_only_compared(const std::vector<Node*>& observers) {
  const std::size_t index = ir::observer_index(observers.front());
  const auto is_one_of_them = [&](const Node* node) {
    return node != nullptr && ir::is_observer(node) && ir::observer_index(node) == index;
  };
  return std::ranges::all_of(observers, [&](const Node* observer) {
    return std::ranges::all_of(ir::users(observer->output()), [&](const Node* reader) {
      return is_extreme(reader) || is_one_of_them(ir::only_reader(reader));
    });
  });
}

bool find_alike(const ObserverSpec& one, const ObserverSpec& other) {
  const ResolvedObserver a = resolve(one);
  const ResolvedObserver b = resolve(other);
  return a.dtype == b.dtype && a.qscheme == b.qscheme && a.quant_min == b.quant_min &&
         a.quant_max == b.quant_max && !a.is_dynamic && !b.is_dynamic;
}

}  // namespace

void share_ranges_of_extremes(GraphModule& gm) {
  ObserverNodes nodes_of;
  const auto nodes = ir::nodes_in_order(*gm.graph);
  for (Node* node : nodes) {
    if (ir::is_observer(node)) nodes_of[ir::observer_index(node)].push_back(node);
  }
  for (const Node* observer : nodes) {
    if (!ir::is_observer(observer) || !is_extreme(observer->input(0)->node())) continue;
    const std::size_t shared = ir::observer_index(observer);
    std::vector<Value*> compared;
    collect_compared(observer->input(0), compared);
    for (const Value* value : compared) {
      if (!ir::is_observer(value->node())) continue;
      const std::size_t own = ir::observer_index(value->node());
      if (own == shared || !find_alike(gm.observers[own].spec, gm.observers[shared].spec) ||
          !are_only_compared(nodes_of[own]))
        continue;
      for (Node* node : nodes_of[own]) ir::set_observer_index(node, shared);
    }
  }
}

}  // namespace tsq::passes
