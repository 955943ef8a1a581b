#include "pipeline/predicted_noise.h"

#include <tsq/error.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "ir/analysis.h"
#include "operators/traits.h"
#include "passes/place/plan_names.h"
#include "pipeline/run.h"

namespace tsq::detail {
namespace {

ir::Model settled(const Stage& calibrated) {
  ir::Model model = calibrated.model.copy();
  detail::run(passes::Step::Settle, model, context_of(calibrated));
  return model;
}

/// The observer before operators that only move values, where it is the same as this one; null where not.
const ir::Node* same_before(const ir::Model& model, const ir::Node* observer) {
  const ir::Value* value = observer->input(0);
  while (true) {
    const ir::Node* maker = value->node();
    if (ir::is_observer(maker))
      return ir::observer_index(maker) == ir::observer_index(observer) ? maker : nullptr;
    if (!operators::moves_values(operators::traits_of(model, maker))) return nullptr;
    const auto operands = ir::operands(maker);
    if (operands.empty()) return nullptr;
    value = operands.front();
  }
}

/// What tells nodes of one model from each other in copies: operators are named; an observer by what it is
/// called and by what makes its value, for several nodes may be one observer.
std::vector<std::string> names_of(const ir::Model& model, const ir::Node* node) {
  if (!ir::is_observer(node))
    return node->outputs().empty() ? std::vector<std::string>()
                                   : std::vector<std::string>{node->outputs().front()->debugName()};
  const std::string& observer = ir::observer_of(model, node).name;
  return {observer + "/" + ir::before_observers(node->input(0))->debugName(), observer + "/"};
}

/// By each node of `model` the same one of `other`, where there is one; null: of the model itself.
std::unordered_map<const ir::Node*, const ir::Node*> matched_nodes(const ir::Model& model,
                                                                   const ir::Model* other) {
  std::unordered_map<std::string, const ir::Node*> named;
  for (const ir::Node* node : ir::nodes_in_order(other == nullptr ? *model.graph : *other->graph)) {
    for (const std::string& name : names_of(other == nullptr ? model : *other, node))
      named.emplace(name, node);
  }
  std::unordered_map<const ir::Node*, const ir::Node*> matched;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    for (const std::string& name : names_of(model, node)) {
      const auto found = named.find(name);
      if (found == named.end()) continue;
      matched.emplace(node, found->second);
      break;
    }
  }
  return matched;
}

/// Of a reference between roundings the weight is rounded, too.
bool has_rounded_weight(Placement placement) {
  return placement != Placement::Float && placement != Placement::Written;
}

}  // namespace

PredictedNoise::PredictedNoise(const Stage& calibrated, std::span<const Sample> samples)
    : settled_(settled(calibrated)),
      context_(context_of(calibrated)),
      operators_(passes::planned_operators(settled_)),
      observers_(passes::planned_observers(settled_)),
      graph_(rounded_graph(calibrated)),
      noise_(graph_.exact ? *graph_.exact : settled_, samples,
             {.corrects_means = context_.options.recipe == Recipe::Best,
              .rounded = graph_.exact ? &graph_.rounded : nullptr}),
      in_graph_(matched_nodes(settled_, graph_.exact.get())) {
  if (noise_.outputs().empty())
    throw Error(ErrorCode::BadModel, "no output holds floating-point numbers, which gradients come from",
                "leave out --quick (SensitivityOptions::quick), which runs the models instead");
  for (const ir::Node* observer : observers_) {
    if (const ir::Node* before = same_before(settled_, observer)) repeated_.emplace(observer, before);
  }
}

Plan PredictedNoise::plan(const std::map<std::string, std::string>& float_nodes) const {
  passes::PassContext context = context_;
  context.kept_float.insert(float_nodes.begin(), float_nodes.end());
  return drafted_plan(settled_, context);
}

double PredictedNoise::share(const Plan& plan) const {
  std::unordered_set<const ir::Node*> rounded;
  for (std::size_t i = 0; i < operators_.size(); ++i) {
    if (has_rounded_weight(plan.operators.at(i).placement)) rounded.insert(operators_[i]);
  }
  for (std::size_t i = 0; i < observers_.size(); ++i) {
    if (!plan.values.at(i).is_rounded) continue;
    const auto before = repeated_.find(observers_[i]);
    if (before == repeated_.end() || !rounded.contains(before->second)) rounded.insert(observers_[i]);
  }
  std::unordered_set<const ir::Node*> in_graph;
  for (const ir::Node* node : rounded) {
    const auto found = in_graph_.find(node);
    if (found != in_graph_.end()) in_graph.insert(found->second);
  }
  return std::ranges::max(noise_.predicted(in_graph));
}

bool PredictedNoise::is_quantized(const Plan& plan, const QuantizedLayer& layer) const {
  for (std::size_t i = 0; i < operators_.size(); ++i) {
    const Decision* decision = ir::decision_of(settled_, operators_[i]);
    if (decision != nullptr && has_rounded_weight(plan.operators.at(i).placement) &&
        std::ranges::find(layer.nodes, decision->node) != layer.nodes.end())
      return true;
  }
  return false;
}

}  // namespace tsq::detail
