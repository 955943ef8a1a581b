// What calibration says about operators: which compute with integers, which were never reached.

#include <algorithm>

#include "ir/analysis.h"
#include "passes/convert/passes.h"
#include "passes/decision_index.h"

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

/// The observers of what a node returns.
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
  if (inputs.empty() && outputs.empty()) return;
  // What it reads may have come by another way; what it returns has not.
  const auto& telling = outputs.empty() ? inputs : outputs;
  const bool was_reached =
      std::ranges::any_of(telling, [&](std::size_t index) { return results[index].saw_data; });
  if (!was_reached) {
    decision.notes.emplace_back(
        "no calibration sample reached it, so that its scale is 1 and its zero point 0: add samples that "
        "reach it");
    return;
  }
  const auto saw_other_dtype = [&](std::size_t index) { return results[index].saw_other_dtype; };
  if (std::ranges::all_of(inputs, saw_other_dtype) && std::ranges::all_of(outputs, saw_other_dtype)) {
    decision.quantized = false;
    decision.reason = "its tensors are not float32 (integers, booleans), and only float32 is quantized";
    decision.remedy = "nothing where they are integers; otherwise convert its input to float32 in the model";
  }
}

}  // namespace

void explain_calibrated(const ir::Model& prepared, std::span<const ObserverResult> results, Report& report) {
  const DecisionIndex decisions(report);
  for (const Node* node : ir::nodes_in_order(*prepared.graph)) {
    Decision* decision = decisions.of(node);
    if (decision != nullptr && decision->quantized) explain(node, results, *decision);
  }
}

}  // namespace tsq::passes
