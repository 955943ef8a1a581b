// What forward has calibrated holds for the same code in other methods.

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "ir/methods.h"
#include "observers/observer_module.h"
#include "passes/context/nodes.h"
#include "passes/observe/layer_observers.h"
#include "passes/ranges/passes.h"
#include "passes/ranges/settle_unreached.h"

namespace tsq::passes {
namespace {

/// A value, by the code that computes it or by the code that reads it.
struct Key {
  bool is_read{false};
  int64_t place{0};
  c10::Symbol kind{};
  std::size_t position{0};  ///< among the outputs or inputs of the node

  friend bool operator<(const Key& a, const Key& b) {
    return std::tie(a.is_read, a.place, a.kind, a.position) <
           std::tie(b.is_read, b.place, b.kind, b.position);
  }
};

/// The keys of what an observer observes, the best first.
std::vector<Key> keys_of(const Node* observer) {
  std::vector<Key> keys;
  const Value* value = before_observers(observer->input(0));
  if (const auto place = ir::place_of(value->node()); place && value->node()->kind() != c10::prim::Param)
    keys.push_back({.place = *place, .kind = value->node()->kind(), .position = value->offset()});
  for (const torch::jit::Use& use : uses_after_observers(observer->output())) {
    if (const auto place = ir::place_of(use.user))
      keys.push_back({.is_read = true, .place = *place, .kind = use.user->kind(), .position = use.offset});
  }
  return keys;
}

/// The observers that saw data, of each value that has a key.
class Ranges {
 public:
  explicit Ranges(Model& model) : model_(model) {
    for (Node* node : ir::nodes_in_order(*model.graph)) {
      if (!ir::is_observer(node)) continue;
      if (saw_data(ir::observer_of(model, node).module.value())) {
        for (const Key& key : keys_of(node)) seen_[key].push_back(ir::observer_index(node));
      } else if (const std::string method = ir::method_of(node); !method.empty()) {
        unseen_.emplace_back(method, node);
      }
    }
  }

  /// Whether some method was given a range.
  bool give() {
    bool changed = false;
    for (const auto& [method, node] : unseen_) {
      for (const Key& key : keys_of(node)) {
        if (!give(node, key, turns_[{method, key}]++)) continue;
        changed = true;
        break;
      }
    }
    return changed;
  }

 private:
  /// A method may run the same code several times: the calls of one are those of the other, in order.
  bool give(Node* node, const Key& key, std::size_t turn) {
    const auto found = seen_.find(key);
    if (found == seen_.end()) return false;
    std::vector<std::size_t> fit;
    for (const std::size_t each : found->second) {
      if (are_alike(each, ir::observer_index(node))) fit.push_back(each);
    }
    if (fit.empty()) return false;
    ir::set_observer_index(node, fit[std::min(turn, fit.size() - 1)]);
    return true;
  }

  [[nodiscard]] bool are_alike(std::size_t a, std::size_t b) const {
    const ObserverSpec& first = model_.observers[a].spec;
    const ObserverSpec& second = model_.observers[b].spec;
    return first.observer == second.observer && resolve(first).dtype == resolve(second).dtype;
  }

  Model& model_;
  std::map<Key, std::vector<std::size_t>> seen_;
  std::vector<std::pair<std::string, Node*>> unseen_;
  std::map<std::pair<std::string, Key>, std::size_t> turns_;
};

}  // namespace

bool settle_methods(Model& model, const PassContext& context) {
  if (ir::methods_node(model) == nullptr) return false;
  const bool takes_ranges = Ranges(model).give();
  const bool leaves_operators = settle_unreached_methods(model, context);
  return takes_ranges || leaves_operators;
}

}  // namespace tsq::passes
