// What observers have found. An observer whose result is known already, from another run on the same
// calibration, is not asked again.

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <vector>

#include "ir/analysis.h"
#include "ir/observer_results.h"
#include "operators/constant_expressions.h"
#include "passes/numerics/passes.h"

namespace tsq::passes {
namespace {

/// Those that a node names and that have not been asked. Nothing else needs data.
std::vector<ir::ObserverEntry*> unasked_observers(ir::Model& model) {
  std::vector<bool> is_used(model.observers.size());
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_observer(node)) is_used.at(ir::observer_index(node)) = true;
  }
  std::vector<ir::ObserverEntry*> unasked;
  for (std::size_t i = 0; i < model.observers.size(); ++i) {
    if (is_used[i] && !model.observers[i].result) unasked.push_back(&model.observers[i]);
  }
  return unasked;
}

/// What the first node of an entry observes.
std::string observed_name(const ir::Model& model, const ir::ObserverEntry& entry) {
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_observer(node) && &ir::observer_of(model, node) == &entry) return node->input(0)->debugName();
  }
  return entry.name;
}

/// An error of an observer says which one it is.
ir::ObserverResult named_result(const ir::Model& model, const ir::ObserverEntry& entry) {
  try {
    return ir::result_of(entry);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("the range of '{}': {}", observed_name(model, entry), error.problem()),
                error.remedy(), Where{.layer = entry.layer});
  }
}

/// The weights of functions are there without calibration, also those that are computed of parameters: an
/// observer that has seen nothing is run on its weight now (K-01).
void observe_weights(ir::Model& model) {
  const operators::ConstantExpressions constants(model);
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_observer(node)) continue;
    ir::ObserverEntry& entry = ir::observer_of(model, node);
    if (!entry.result || entry.result->saw_data || !entry.result->qparams) continue;
    const auto value = constants.value_of(node->input(0));
    if (value && value->isTensor()) entry.result->qparams = observe_once(entry.spec, value->toTensor());
  }
}

}  // namespace

bool find_qparams(ir::Model& model, const PassContext& context) {
  const std::vector<ir::ObserverEntry*> unasked = unasked_observers(model);
  // Observers are independent: their searches for a range run side by side.
  at::parallel_for(0, static_cast<int64_t>(unasked.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ir::ObserverEntry& entry = *unasked[static_cast<std::size_t>(i)];
      entry.result = named_result(model, entry);
      context.advance(Part::Observer, unasked.size());
    }
  });
  const auto saw_nothing = [](const ir::ObserverEntry* entry) { return !entry->result->saw_data; };
  if (std::ranges::any_of(unasked, saw_nothing)) observe_weights(model);
  return !unasked.empty();
}

}  // namespace tsq::passes
