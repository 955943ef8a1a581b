#include "passes/place/idle_observers.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "ir/analysis.h"
#include "passes/context/nodes.h"
#include "passes/place/attention_roundings.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

bool has_qconfig(const Model& model, const Node* node) {
  const ir::NodeRecord* record = ir::record_of(model, node);
  return record != nullptr && record->lookup.qconfig.has_value();
}

/// The nodes that read a value, also after observers of channels and the branches that return it.
std::vector<Node*> readers_of(const Model& model, const Value* value) {
  std::vector<Node*> readers;
  const auto add_readers = [&](const Value* of) {
    for (Node* reader : readers_of(model, of)) readers.push_back(reader);
  };
  for (Node* user : ir::users(value)) {
    const Node* owner = user->owningBlock()->owningNode();
    if (is_channel_observer(model, user)) {
      add_readers(user->output());
    } else if (user->kind() == c10::prim::Return && owner != nullptr && owner->kind() == c10::prim::If) {
      for (std::size_t i = 0; i < user->inputs().size(); ++i) {
        if (user->input(i) == value) add_readers(owner->output(i));
      }
    } else {
      readers.push_back(user);
    }
  }
  return readers;
}

/// K-03: an observer between operators that are all configured not to be quantized is removed.
bool is_between_float_operators(const Model& model, const Node* observer) {
  if (has_qconfig(model, observer->input(0)->node())) return false;
  return std::ranges::none_of(readers_of(model, observer->output()),
                              [&](const Node* reader) { return has_qconfig(model, reader); });
}

/// Of attention's observers round_attention decides.
bool is_idle(const Model& model, const Node* observer, const std::unordered_set<const Node*>& of_attention) {
  if (!becomes_rounding(ir::observer_of(model, observer))) return true;
  return !of_attention.contains(observer) && is_between_float_operators(model, observer);
}

}  // namespace

bool take_idle_observers_away(Model& model, const PassContext& context) {
  const auto of_attention = attention_roundings(model, context);
  const auto is_idle_observer = [&](const Node* node) {
    return ir::is_observer(node) && !is_channel_observer(model, node) && is_idle(model, node, of_attention);
  };
  const bool has_changed = change_nodes(model, is_idle_observer, bypass);
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
