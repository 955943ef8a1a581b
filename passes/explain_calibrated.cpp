// What calibration says about operators: which compute with integers, which were never reached.

#include <algorithm>

#include "observers/observer_module.h"
#include "passes/decision_index.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::Node;
using ir::Value;

/// The observers of what a node reads.
std::vector<std::size_t> input_observers(const Node* node) {
  std::vector<std::size_t> indexes;
  for (const Value* operand : ir::operands(node)) {
    if (ir::is_observer(operand->node())) indexes.push_back(ir::observer_index(operand->node()));
  }
  return indexes;
}

/// The observers of what a node gives.
std::vector<std::size_t> output_observers(const Node* node) {
  std::vector<std::size_t> indexes;
  for (const Value* output : node->outputs()) {
    for (const Node* user : ir::users(output)) {
      if (ir::is_observer(user)) indexes.push_back(ir::observer_index(user));
    }
  }
  return indexes;
}

void explain(const Node* node, std::span<const ObserverResult> results, Decision& decision) {
  const std::vector<std::size_t> inputs = input_observers(node);
  const std::vector<std::size_t> outputs = output_observers(node);
  std::vector<std::size_t> all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  if (all.empty()) return;
  // What it reads may have come by another way; what it gives has not.
  const auto& telling = outputs.empty() ? inputs : outputs;
  const bool was_reached =
      std::any_of(telling.begin(), telling.end(), [&](std::size_t index) { return results[index].saw_data; });
  if (!was_reached) {
    decision.notes.emplace_back(
        "no calibration sample reached it, so that its scale is 1 and its zero point 0: add samples that do");
    return;
  }
  if (std::all_of(all.begin(), all.end(),
                  [&](std::size_t index) { return results[index].saw_other_dtype; })) {
    decision.quantized = false;
    decision.reason = "its tensors are not float32 (integers, booleans), and only float32 is quantized";
    decision.remedy = "nothing where they are integers; else convert its input to float32 in the model";
  }
}

/// Whether some observer that needs data saw any; without data there is nothing to tell.
bool is_calibrated(const ir::GraphModule& prepared, std::span<const ObserverResult> results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].saw_data && !saw_data(make_observer(prepared.observers[i].spec))) return true;
  }
  return false;
}

}  // namespace

void explain_calibrated(const ir::GraphModule& prepared, std::span<const ObserverResult> results,
                        Report& report) {
  if (!is_calibrated(prepared, results)) return;
  const DecisionIndex decisions(report);
  for (const Node* node : ir::nodes_in_order(*prepared.graph)) {
    Decision* decision = decisions.of(node);
    if (decision != nullptr && decision->quantized) explain(node, results, *decision);
  }
}

}  // namespace tsq::passes
