#include "passes/place/draft.h"

#include <tsq/recipe.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis.h"
#include "ir/reasons.h"
#include "passes/place/plan_names.h"

namespace tsq::passes {
namespace {

using ir::Node;

/// Those that the draft has more.
std::vector<std::string> new_notes(const Decision& before, const Decision& drafted) {
  const auto known = std::min(before.notes.size(), drafted.notes.size());
  return {drafted.notes.begin() + static_cast<std::ptrdiff_t>(known), drafted.notes.end()};
}

void add_entry_of_report(const ir::NodeRecord& before, const ir::NodeRecord& drafted,
                         PlannedOperator& planned) {
  planned.notes = new_notes(before.decision, drafted.decision);
  if (drafted.decision.kernel != before.decision.kernel) planned.kernel = drafted.decision.kernel;
  const bool is_left = before.decision.quantized && !drafted.decision.quantized;
  const std::string& remedy = drafted.decision.remedy;
  if (is_left && remedy != ir::explanation_of(drafted.reason, drafted.detail).remedy) planned.remedy = remedy;
}

}  // namespace

Plan empty_plan(const PassContext& context) {
  return {.backend = context.table.name(),
          .engine = context.target.engine,
          .target = std::string(to_string(context.target.runtime)),
          .recipe = std::string(to_string(context.options.recipe))};
}

Draft::Draft(const ir::Model& model) : model_(model), draft_(model.copy()) {
  const std::vector<Node*> nodes = nodes_and_ends(model_);
  const std::vector<Node*> drafted = nodes_and_ends(draft_);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    pairs_.push_back({.in_model = nodes[i], .in_draft = drafted[i]->wrap()});
}

PlannedOperator Draft::planned(const Pair& pair, std::string name) const {
  const Node* node = pair.in_draft->elem;
  const ir::NodeRecord& before = *ir::record_of(model_, pair.in_model);
  PlannedOperator planned{.node = std::move(name),
                          .layer = ir::layer_of(model_, pair.in_model),
                          .op = operator_name(model_, pair.in_model),
                          .placement = before.placement,
                          .reason = before.reason,
                          .detail = before.detail};
  if (node == nullptr) {  // nothing reads it any more
    if (planned.placement == ir::Placement::Undecided) planned.placement = ir::Placement::Float;
    return planned;
  }
  const ir::NodeRecord& drafted = *ir::record_of(draft_, node);
  planned.placement = drafted.placement;
  planned.reason = drafted.reason;
  planned.detail = drafted.detail;
  planned.has_qconfig = drafted.lookup.qconfig.has_value() || !before.lookup.qconfig;
  if (drafted.is_reported) add_entry_of_report(before, drafted, planned);
  if (!ir::is_module_call(node)) return planned;
  const ir::ModuleCall& call = ir::call_of(draft_, node);
  planned.float_recurrent_weights = static_cast<std::int64_t>(call.float_recurrent_weights);
  if (const ir::Weighted* weighted = ir::weighted_of(call)) planned.fold = weighted->fold;
  return planned;
}

std::vector<PlannedOperator> Draft::planned_operators() const {
  std::vector<PlannedOperator> operators;
  std::vector<std::string> names = operator_names(model_);
  for (const Pair& pair : pairs_) {
    if (!ir::is_observer(pair.in_model) && ir::record_of(model_, pair.in_model) != nullptr)
      operators.push_back(planned(pair, std::move(names.at(operators.size()))));
  }
  return operators;
}

std::vector<PlannedValue> Draft::planned_values(const std::vector<PlannedOperator>& operators) const {
  const auto nodes = node_names(model_, operators);
  std::unordered_map<const Node*, const Node*> in_model;  // by the node of the draft
  std::unordered_set<const Node*> gone;                   // of the model
  for (const Pair& pair : pairs_) {
    if (pair.in_draft->elem == nullptr)
      gone.insert(pair.in_model);
    else
      in_model.emplace(pair.in_draft->elem, pair.in_model);
  }
  const auto rounded_for = [&](const Pair& pair) {
    std::unordered_set<const Node*> found;
    if (pair.in_draft->elem == nullptr) return found;
    for (const Node* reader : readers_after(pair.in_draft->elem)) {
      const auto known = in_model.find(reader);
      found.insert(known == in_model.end() ? reader : known->second);
    }
    return found;
  };
  std::vector<PlannedValue> values;
  for (const Pair& pair : pairs_) {
    if (!ir::is_observer(pair.in_model)) continue;
    const std::unordered_set<const Node*> rounded = rounded_for(pair);
    PlannedValue value{.value = value_name(model_, pair.in_model, nodes),
                       .observer = ir::observer_of(model_, pair.in_model).name,
                       .is_rounded = !rounded.empty()};
    for (const Node* reader : readers_after(pair.in_model)) {
      if (value.is_rounded && !rounded.contains(reader) && !gone.contains(reader))
        value.exact_for.push_back(nodes.at(reader));
    }
    values.push_back(std::move(value));
  }
  return values;
}

Plan Draft::plan(const PassContext& context) const {
  Plan plan = empty_plan(context);
  plan.operators = planned_operators();
  plan.values = planned_values(plan.operators);
  plan.prediction = draft_.prediction;
  return plan;
}

}  // namespace tsq::passes
