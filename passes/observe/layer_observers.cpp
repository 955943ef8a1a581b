#include "passes/observe/layer_observers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/weighted.h"
#include "passes/context/names.h"

namespace tsq::passes {

const ir::Weighted* observed_layer(const Model& model, const Node* node) {
  if (!ir::is_module_call(node) || ir::is_opaque(model, node)) return nullptr;
  const ir::ModuleCall& call = ir::call_of(model, node);
  const Symbol root = ir::root_of(call).type;
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  const bool is_watched =
      !operators::is_transposed(root) && qconfig != nullptr && !resolve(qconfig->activation).is_dynamic;
  return is_watched ? ir::weighted_of(call) : nullptr;
}

bool is_observed_root(const Model& model, const Node* node) {
  const ir::NodeRecord* record = ir::record_of(model, node);
  return record != nullptr && record->observed && record->is_root;
}

std::size_t new_observer(Model& model, ObserverSpec spec, std::string layer, const char* name) {
  const std::size_t index = model.observers.size();
  // As in FX, an observer that is taken out again has used up its number.
  const int number = model.first_free_numbers[name]++;
  model.observers.push_back(
      {.name = fmt::format("{}_{}", name, number), .spec = std::move(spec), .layer = std::move(layer)});
  return index;
}

Node* insert_observer_before(Model& model, Value* input, std::size_t observer, Node* before) {
  Node* node = ir::insert_observer(model, input, observer);
  node->moveBefore(before);
  return node;
}

Node* insert_layer_observer(Model& model, Value* input, std::size_t observer, Node* layer) {
  return layer->owningBlock() != input->node()->owningBlock()
             ? insert_observer_before(model, input, observer, layer)
             : ir::insert_observer(model, input, observer);
}

std::vector<torch::jit::Use> uses_after_observers(const Value* value) {
  std::vector<torch::jit::Use> found;
  for (const torch::jit::Use& use : value->uses()) {
    if (ir::is_observer(use.user)) {
      std::ranges::move(uses_after_observers(use.user->output()), std::back_inserter(found));
    } else {
      found.push_back(use);
    }
  }
  return found;
}

std::optional<operators::Saturation> activation_after(const Model& model, const Node* observer) {
  if (!ir::is_observer(observer)) return std::nullopt;
  const auto readers = uses_after_observers(observer->output());
  const auto* const row = readers.size() == 1 ? operators::traits_of(model, readers.front().user) : nullptr;
  return row == nullptr ? std::nullopt : row->saturates;
}

}  // namespace tsq::passes
