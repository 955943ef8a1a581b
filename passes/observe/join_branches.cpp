// One range where the branches of an `if` meet.
//   if c: a = obs1(conv(x)) else: a = obs2(linear(x));  y = linear(obs3(a))
//   →   if c: a = obs1(conv(x)) else: a = obs1(linear(x));  y = linear(a)

#include <algorithm>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "passes/context/nodes.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

/// What a value comes from through the branches that return it.
struct Sources {
  std::vector<Node*> observers{};                       ///< observed in its branch
  std::vector<std::pair<Node*, std::size_t>> others{};  ///< Return node and index of a value that is not
};

void collect_sources(Value* joined, Sources& sources) {
  for (torch::jit::Block* block : joined->node()->blocks()) {
    Value* value = block->outputs()[joined->offset()];
    if (ir::is_no_value(value)) continue;
    // A value from outside of the branch keeps the range that it has there.
    const bool is_made_here = value->node()->owningBlock() == block;
    if (is_made_here && ir::is_observer(value->node())) {
      sources.observers.push_back(value->node());
    } else if (is_made_here && value->node()->kind() == c10::prim::If && value->uses().size() == 1) {
      collect_sources(value, sources);
    } else {
      sources.others.emplace_back(block->return_node(), joined->offset());
    }
  }
}

const ObserverSpec& spec_of(const Model& model, const Node* observer) {
  return ir::observer_of(model, observer).spec;
}

bool is_scaled_later(const Model& model, const Node* observer) {
  return std::ranges::any_of(ir::users(observer->output()), [&](const Node* reader) {
    return ir::is_observer(reader) && spec_of(model, reader).observer == observer_classes::kInputEqualization;
  });
}

/// A range that follows from all of its values can be that of either branch.
bool can_join(const Model& model, const Node* observer, const Sources& sources) {
  const ObserverSpec& spec = spec_of(model, observer);
  if (resolve(spec).is_dynamic || is_scaled_later(model, observer)) return false;
  const bool alike =
      !sources.observers.empty() &&
      std::ranges::all_of(sources.observers, [&](const Node* each) { return spec_of(model, each) == spec; });
  // Who reads the joined value without an observer gets the others as they are.
  return alike && (sources.others.empty() || observer->input(0)->uses().size() == 1);
}

void share(Model& model, std::size_t from, std::size_t to) {
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_observer(node) && ir::observer_index(node) == from) ir::set_observer_index(node, to);
  }
}

void join(Model& model, Node* observer, const Sources& sources) {
  const std::size_t shared = ir::observer_index(sources.observers.front());
  for (const Node* each : sources.observers) share(model, ir::observer_index(each), shared);
  share(model, ir::observer_index(observer), shared);
  for (const auto& [returns, index] : sources.others)
    returns->replaceInput(index,
                          insert_observer_before(model, returns->input(index), shared, returns)->output());
  bypass(observer);
}

}  // namespace

bool join_branches(Model& model, const PassContext& /*context*/) {
  return change_nodes(model, [&](Node* node) {
    if (!ir::is_observer(node) || node->input(0)->node()->kind() != c10::prim::If) return false;
    Sources sources;
    collect_sources(node->input(0), sources);
    const bool joins = can_join(model, node, sources);
    if (joins) join(model, node, sources);
    return joins;
  });
}

}  // namespace tsq::passes
