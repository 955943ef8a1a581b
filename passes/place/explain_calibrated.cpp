// What calibration says about operators: which compute with integers, which were never reached, which met NaN
// or infinity, which read the same number everywhere.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/analysis.h"
#include "ir/value_numbers.h"
#include "observers/observer_module.h"
#include "operators/constant_expressions.h"
#include "passes/context/nodes.h"
#include "passes/place/passes.h"
#include "passes/place/uncalibrated.h"

namespace tsq::passes {
namespace {

using ir::ObserverEntry;

bool met_other_dtype(const ObserverEntry* entry) {
  return observes_values(*entry) && saw_other_dtype(entry->module.value());
}

using Observers = std::vector<const ObserverEntry*>;

/// The observers of what a node reads.
Observers input_observers(const Model& model, const Node* node) {
  Observers found;
  for (const Value* operand : ir::operands(node)) {
    if (ir::is_observer(operand->node())) found.push_back(&ir::observer_of(model, operand->node()));
  }
  return found;
}

/// The observers of what a node returns.
Observers output_observers(const Model& model, const Node* node) {
  Observers found;
  for (const Value* output : node->outputs()) {
    for (const Node* user : ir::users(output)) {
      if (ir::is_observer(user)) found.push_back(&ir::observer_of(model, user));
    }
  }
  return found;
}

/// The most tensors with NaN or infinity that one of the observers saw.
int64_t most_not_finite(const Observers& observers) {
  int64_t most = 0;
  for (const ObserverEntry* entry : observers) {
    if (observes_values(*entry)) most = std::max(most, tensors_not_finite(entry->module.value()));
  }
  return most;
}

/// Whether there were any.
bool note_non_finite(const Observers& observers, std::string_view what, Decision& decision) {
  const int64_t tensors = most_not_finite(observers);
  if (tensors == 0) return false;
  decision.notes.push_back(fmt::format(
      "what it {} held NaN or infinite values in {} tensor{} of calibration: they were left out of "
      "the range, and become ordinary numbers in int8",
      what, tensors, tensors == 1 ? "" : "s"));
  return true;
}

/// What nodes read that follows from the model's inputs and was one number in all samples.
std::set<const ir::ValueFacts*> constants_read(const Model& model, const Node* node,
                                               const operators::ConstantExpressions& expressions) {
  std::set<const ir::ValueFacts*> found;
  for (const Value* operand : ir::operands(node)) {
    const Value* value = before_observers(operand);
    const ir::ValueFacts* facts = ir::facts_of(model, value);
    const bool is_known = ir::is_observer(operand->node()) && facts != nullptr && ir::was_constant(*facts);
    if (is_known && !expressions.value_of(value)) found.insert(facts);
  }
  return found;
}

/// Whether there were such values.
bool note_constants(const Model& model, const Node* node, const operators::ConstantExpressions& expressions,
                    Decision& decision) {
  const auto constants = constants_read(model, node, expressions);
  for (const ir::ValueFacts* facts : constants) {
    decision.notes.push_back(
        fmt::format("what it reads was {:g} everywhere in all samples of calibration, which tells no range: "
                    "add samples in which it varies, if it may",
                    facts->range->lowest));
  }
  return !constants.empty();
}

/// Whether there was anything to say.
bool explain(Model& model, Node* node, const operators::ConstantExpressions& expressions,
             ir::NodeRecord& record) {
  const Observers inputs = input_observers(model, node);
  const Observers outputs = output_observers(model, node);
  if (inputs.empty() && outputs.empty()) return false;
  bool has_notes = note_non_finite(inputs, "reads", record.decision);
  has_notes |= note_non_finite(outputs, "returns", record.decision);
  has_notes |= note_constants(model, node, expressions, record.decision);
  // What it reads may have come by another way; what it returns has not.
  const Observers& telling = outputs.empty() ? inputs : outputs;
  if (std::ranges::none_of(telling, [](const ObserverEntry* entry) { return was_reached(*entry); })) {
    record.decision.notes.emplace_back(
        "no calibration sample reached it, so that its scale is 1 and its zero point 0: add samples that "
        "reach it");
    return true;
  }
  if (!std::ranges::all_of(inputs, met_other_dtype) || !std::ranges::all_of(outputs, met_other_dtype))
    return has_notes;
  ir::leave_float(model, node, ir::Placement::Float, ir::Reason::OtherDtype);
  return true;
}

}  // namespace

bool explain_calibrated(Model& model, const PassContext& /*context*/) {
  if (is_uncalibrated(model)) return false;  // without data there is nothing to tell of operators
  const operators::ConstantExpressions expressions(model);
  bool has_changed = false;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    ir::NodeRecord* record = ir::record_of(model, node);
    if (record == nullptr || !record->is_reported || !record->decision.quantized) continue;
    has_changed = explain(model, node, expressions, *record) || has_changed;
  }
  return has_changed;
}

}  // namespace tsq::passes
