// Ranges for operators that no calibration sample reached: those of the same values elsewhere, found when the
// model runs, or none.

#include "passes/ranges/settle_unreached.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/kernels/dynamic_kernels.h"
#include "backends/kernels/target.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/methods.h"
#include "ir/reasons.h"
#include "observers/observer_module.h"
#include "operators/weighted.h"
#include "passes/context/branch_observers.h"
#include "passes/context/nodes.h"
#include "passes/ranges/calls_of_layer.h"
#include "passes/ranges/passes.h"
#include "passes/ranges/same_values.h"

namespace tsq::passes {
namespace {

using torch::jit::Block;

constexpr const char* kHasNoFiniteValue = "what it met in calibration was NaN or infinite";
constexpr const char* kReadsUnreached =
    "a branch that no calibration sample reached makes its input, whose range is not known";
constexpr const char* kTakesRange =
    "no calibration sample reached it: it has the ranges of another call of its layer with the same input";

bool is_within(const Node* node, const Block* block) {
  while (node != nullptr && node->owningBlock() != block) node = node->owningBlock()->owningNode();
  return node != nullptr;
}

/// Where operators without data are settled.
enum class Settling {
  Forward,
  BranchesOfForward,  ///< elsewhere an observer without data has scale 1, as in FX (M-05)
  Methods,
};

class Unreached {
 public:
  Unreached(Model& model, const kernels::Target& target, Settling where)
      : model_(model), target_(target), where_(where), nodes_(*model.graph) {
    for (Node* node : nodes_) {
      if (ir::is_observer(node) && needs_data(node)) places_[ir::observer_index(node)].push_back(node);
    }
  }

  /// Whether the model was changed.
  bool run() {
    if (std::ranges::none_of(places_, [&](const auto& place) { return saw(place.first); })) return false;
    for (Node* node : nodes_) {
      if (where_ == Settling::Methods || node->kind() == ir::kMethodsKind) continue;
      for (const Block* block : node->blocks()) {
        if (was_not_entered(block)) blocks_.push_back(block);
      }
    }
    std::vector<Node*> found;
    std::ranges::copy_if(nodes_, std::back_inserter(found), [&](Node* node) { return is_unreached(node); });
    std::ranges::copy_if(nodes_, std::back_inserter(calibrated_),
                         [&](const Node* node) { return layer(node) != nullptr && !is_unreached(node); });
    if (where_ != Settling::Methods)
      take_ranges_of_same_values(model_, [&](const Node* node) { return is_in_branch(node); });
    for (Node* node : found) settle(node);
    if (where_ != Settling::Methods) leave_joined_ranges();
    const bool dropped = drop_observers();
    return !found.empty() || dropped;
  }

 private:
  [[nodiscard]] bool needs_data(const Node* observer) const {
    const ObserverSpec& spec = ir::observer_of(model_, observer).spec;
    return !resolve(spec).is_dynamic && tsq::needs_data(spec);
  }
  [[nodiscard]] bool saw(std::size_t observer) const {
    return saw_data(model_.observers[observer].module.value());
  }

  /// Whether the observers that stand nowhere else saw nothing. Ranges that meet after a branch are those of
  /// the other branch as well.
  [[nodiscard]] bool was_not_entered(const Block* block) const {
    bool has_own = false;
    for (const auto& [index, places] : places_) {
      if (!std::ranges::all_of(places, [&](const Node* place) { return is_within(place, block); })) continue;
      if (saw(index)) return false;
      has_own = true;
    }
    return has_own;
  }

  /// Who reads a value, perhaps after observers and branches that return it.
  [[nodiscard]] static std::vector<const Node*> readers_of(const Value* value) {
    std::vector<const Node*> readers;
    const auto add = [&](const Value* handed_on) {
      std::ranges::copy(readers_of(handed_on), std::back_inserter(readers));
    };
    for (const torch::jit::Use& use : value->uses()) {
      const Node* around = use.user->owningBlock()->owningNode();
      if (ir::is_observer(use.user)) {
        add(use.user->output());
      } else if (use.user->kind() == c10::prim::Return && around != nullptr &&
                 around->kind() == c10::prim::If) {
        add(around->outputs()[use.offset]);
      } else {
        readers.push_back(use.user);
      }
    }
    return readers;
  }

  /// What a branch returns that has a range by other branches alone is not rounded.
  void leave_joined_ranges() {
    for (const Node* node : nodes_) {
      if (node->kind() != c10::prim::If || !ir::method_of(node).empty()) continue;
      for (const Block* block : node->blocks()) {
        for (std::size_t i = 0; i < node->outputs().size(); ++i) {
          const Node* end = end_of_branch(block, i);
          if (end == nullptr || !was_not_left(model_, end)) continue;
          unrounded_.insert(end);
          for (const Node* reader : readers_of(node->outputs()[i])) note(reader, kReadsUnreached);
        }
      }
    }
  }

  /// Whether a node is in a branch that was not entered.
  [[nodiscard]] bool is_in_branch(const Node* node) const {
    return std::ranges::any_of(blocks_, [&](const Block* block) { return is_within(node, block); });
  }

  /// Null where prepare did not observe a node, and where it has turned out to have no range.
  [[nodiscard]] const QConfig* observed_qconfig(const Node* node) const {
    const ir::NodeRecord* record = ir::record_of(model_, node);
    const bool has_no_range = record != nullptr && record->reason == ir::Reason::NotReached;
    return has_no_range ? nullptr : ir::observed_qconfig(model_, node);
  }

  [[nodiscard]] bool is_observed(const Node* node) const {
    const QConfig* qconfig = observed_qconfig(node);
    return qconfig != nullptr && !resolve(qconfig->activation).is_dynamic && !ir::is_standalone(model_, node);
  }

  [[nodiscard]] bool is_unreached(const Node* node) const {
    if (ir::is_observer(node) || !is_observed(node)) return false;
    if (where_ == Settling::Methods) return !ir::method_of(node).empty() && lacks_range(node);
    if (is_in_branch(node)) return true;
    if (where_ == Settling::BranchesOfForward) return false;
    std::set<std::size_t> telling = observers_after(node);
    if (telling.empty()) telling = observers_before(node);
    return !telling.empty() && std::ranges::none_of(telling, [&](std::size_t index) { return saw(index); });
  }

  [[nodiscard]] bool lacks_range(const Node* node) const {
    const bool is_end = std::ranges::any_of(node->outputs(), [&](const Value* output) {
      return std::ranges::any_of(ir::users(output), [&](const Node* user) {
        return ir::is_observer(user) && was_not_left(model_, user);
      });
    });
    return is_end || std::ranges::any_of(observers_of(node), [&](std::size_t index) { return !saw(index); });
  }

  [[nodiscard]] std::set<std::size_t> observers_of(const Node* node) const {
    std::set<std::size_t> found = observers_after(node);
    found.merge(observers_before(node));
    return found;
  }

  [[nodiscard]] std::set<std::size_t> observers_after(const Node* node) const {
    std::set<std::size_t> found;
    for (const Value* output : node->outputs()) {
      for (const Node* user : ir::users(output)) {
        if (ir::is_observer(user) && needs_data(user)) found.insert(ir::observer_index(user));
      }
    }
    return found;
  }

  [[nodiscard]] std::set<std::size_t> observers_before(const Node* node) const {
    std::set<std::size_t> found;
    for (const Value* operand : ir::operands(node)) {
      const Node* made_by = operand->node();
      if (ir::is_observer(made_by) && needs_data(made_by)) found.insert(ir::observer_index(made_by));
    }
    return found;
  }

  [[nodiscard]] const ir::Weighted* layer(const Node* node) const {
    return is_observed(node) ? weighted_at(std::as_const(model_), node) : nullptr;
  }

  /// Whether an observer of a node's place is this pass's to take away.
  [[nodiscard]] bool may_settle(const Node* node) const {
    switch (where_) {
      case Settling::Forward:
        return true;
      case Settling::BranchesOfForward:
        return is_in_branch(node);
      case Settling::Methods:
        return !ir::method_of(node).empty();
    }
    return false;
  }

  /// Those that have seen nothing, and ranges of other branches. Whether there were any.
  bool drop_observers() {
    bool dropped = false;
    for (Node* node : nodes_) {
      if (!ir::is_observer(node)) continue;
      const bool has_no_data = needs_data(node) && !saw(ir::observer_index(node)) && may_settle(node);
      if (!has_no_data && !unrounded_.contains(node)) continue;
      bypass(node);
      dropped = true;
    }
    return dropped;
  }

  /// What is only ever NaN has no range in another call either, and none when the model runs.
  [[nodiscard]] bool met_non_finite(const Node* node) const {
    return std::ranges::any_of(observers_of(node), [&](std::size_t index) {
      return tensors_not_finite(model_.observers[index].module.value()) > 0;
    });
  }

  void settle(Node* node) {
    const bool is_non_finite = met_non_finite(node);
    if (is_non_finite) note(node, kHasNoFiniteValue);
    if (!is_non_finite && !observers_of(node).empty() && !lacks_range(node)) return note(node, kTakesRange);
    read_exact_values(node);
    if (!is_non_finite && was_calibrated_elsewhere(node) && finds_range_when_run(node)) {
      quantize_when_run(node);
      return note(node, ir::range_found_when_run(ir::method_of(node)));
    }
    ir::record_for(model_, node).reason = ir::Reason::NotReached;
  }

  void note(const Node* node, std::string text) {
    Decision* decision = ir::decision_of(model_, node);
    if (decision != nullptr && std::ranges::find(decision->notes, text) == decision->notes.end())
      decision->notes.push_back(std::move(text));
  }

  /// Whether data reached another call of the same layer.
  [[nodiscard]] bool was_calibrated_elsewhere(const Node* node) const {
    if (layer(node) == nullptr || node->inputs().size() != 1) return false;
    return std::ranges::any_of(calibrated_, [&](const Node* other) {
      return other->inputs().size() == 1 &&
             are_of_one_layer(ir::call_of(model_, other), ir::call_of(model_, node));
    });
  }

  /// What comes from outside may be observed there: only what comes out of a kernel is rounded already.
  void read_exact_values(Node* node) {
    for (Value* operand : ir::operands(node)) {
      Value* exact = before_observers(operand);
      if (exact != operand && observed_qconfig(exact->node()) == nullptr)
        ir::replace_operand(node, operand, exact);
    }
  }

  /// Kernels of convolutions that find the range of their input round their output to it as well.
  [[nodiscard]] bool finds_range_when_run(const Node* node) const {
    if (!layer(node)->stride.empty()) return false;
    const ir::ModuleCall& call = ir::call_of(model_, node);
    const bool is_fused = !call.members.empty();
    const auto post_op = is_fused ? kernels::post_op_of(call.type.name) : kernels::PostOp::None;
    if (is_fused && post_op == kernels::PostOp::None) return false;
    const Symbol& root = is_fused ? call.members.front().type : call.type;
    const auto dtype = resolve(ir::observed_qconfig(model_, node)->weight).dtype;
    return kernels::dynamic_kernel(root.name, post_op, dtype) != nullptr;
  }

  void quantize_when_run(Node* node) {
    const ir::Rewriter in_front(model_, node);
    const auto dtype = resolve(ir::observed_qconfig(model_, node)->activation).dtype;
    const bool reduces_range = kernels::reduces_dynamic_range(target_);
    Value* quantized = in_front.op(
        "aten::quantize_per_tensor_dynamic",
        {node->input(0), in_front.constant(static_cast<int64_t>(dtype)), in_front.constant(reduces_range)});
    node->replaceInput(0, in_front.op("aten::dequantize", {quantized}));
  }

  Model& model_;
  const kernels::Target& target_;
  Settling where_;
  ir::LiveNodes nodes_;
  std::map<std::size_t, std::vector<Node*>> places_;  ///< the nodes of each observer that needs data
  std::vector<const Block*> blocks_;                  ///< that no sample entered
  std::set<const Node*> unrounded_;                   ///< observers whose range is another branch's
  std::vector<const Node*> calibrated_;               ///< layers that data reached
};

}  // namespace

bool settle_unreached(Model& model, const PassContext& context) {
  const bool is_fx = context.options.recipe == Recipe::Fx;
  const bool settles =
      Unreached(model, context.target, is_fx ? Settling::BranchesOfForward : Settling::Forward).run();
  const bool has_dropped_branch_observers = change_nodes(
      model, [&](const Node* node) { return is_branch_observer(model, node); },
      [](Node* node) { bypass(node); });
  return settles || has_dropped_branch_observers;
}

bool settle_unreached_methods(Model& model, const PassContext& context) {
  return Unreached(model, context.target, Settling::Methods).run();
}

}  // namespace tsq::passes
