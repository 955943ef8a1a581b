// One range where the branches of an `if` meet.
//   if c: a = obs1(conv(x)) else: a = obs2(linear(x));  y = linear(obs3(a))
//   →   if c: a = obs1(conv(x)) else: a = obs1(linear(x));  y = linear(a)

#include <algorithm>

#include "config/observer_classes.h"
#include "ir/analysis.h"
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

class Join {
 public:
  explicit Join(Model& model) : model_(model) {}

  /// Whether some have been joined.
  bool run() {
    bool changed = false;
    for (Node* node : ir::nodes_in_order(*model_.graph)) {
      if (!ir::is_observer(node) || node->input(0)->node()->kind() != c10::prim::If) continue;
      if (!can_join(node)) continue;
      join(node);
      changed = true;
    }
    return changed;
  }

 private:
  const ObserverSpec& spec_of(const Node* observer) const { return ir::observer_of(model_, observer).spec; }

  bool is_scaled_later(const Node* observer) const {
    const auto readers = ir::users(observer->output());
    return std::any_of(readers.begin(), readers.end(), [&](const Node* reader) {
      return ir::is_observer(reader) && spec_of(reader).observer == observer_classes::kInputEqualization;
    });
  }

  /// A range that follows from all of its values can be that of either branch.
  bool can_join(Node* observer) const {
    if (resolve(spec_of(observer)).is_dynamic || is_scaled_later(observer)) return false;
    Sources sources;
    collect_sources(observer->input(0), sources);
    const bool alike = !sources.observers.empty() &&
                       std::all_of(sources.observers.begin(), sources.observers.end(),
                                   [&](const Node* each) { return spec_of(each) == spec_of(observer); });
    // Who reads the joined value without an observer gets the others as they are.
    return alike && (sources.others.empty() || observer->input(0)->uses().size() == 1);
  }

  void join(Node* observer) {
    Sources sources;
    collect_sources(observer->input(0), sources);
    const std::size_t shared = ir::observer_index(sources.observers.front());
    for (const Node* each : sources.observers) share(ir::observer_index(each), shared);
    share(ir::observer_index(observer), shared);
    for (const auto& [returns, index] : sources.others) observe_returned(returns, index, shared);
    observer->output()->replaceAllUsesWith(observer->input(0));
    observer->destroy();
  }

  void share(std::size_t from, std::size_t to) {
    for (Node* node : ir::nodes_in_order(*model_.graph)) {
      if (ir::is_observer(node) && ir::observer_index(node) == from) ir::set_observer_index(node, to);
    }
  }

  void observe_returned(Node* returns, std::size_t index, std::size_t shared) {
    Node* made = insert_observer_before(model_, returns->input(index), shared, returns);
    returns->replaceInput(index, made->output());
  }

  Model& model_;
};

}  // namespace

bool join_branches(Model& model, const PassContext& /*context*/) { return Join(model).run(); }

}  // namespace tsq::passes
