#include "pipeline/predicted_noise.h"

#include <tsq/error.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "ir/analysis.h"
#include "operators/roundings.h"
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

/// How many nodes are of each observer, by its name.
std::unordered_map<std::string, std::size_t> nodes_of_observers(const ir::Model& model) {
  std::unordered_map<std::string, std::size_t> counts;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_observer(node)) ++counts[ir::observer_of(model, node).name];
  }
  return counts;
}

/// What tells nodes of one model from each other in copies: operators are named; an observer by what it is
/// called and by what makes its value, for several nodes may be one observer.
std::string name_of(const ir::Model& model, const ir::Node* node) {
  if (ir::is_observer(node))
    return ir::observer_of(model, node).name + "/" + ir::before_observers(node->input(0))->debugName();
  return node->outputs().empty() ? std::string() : node->outputs().front()->debugName();
}

/// By each node of `model` the same one of `other`, where there is one. What makes an observed value may be
/// another there: an observer of one node is known by its name.
std::unordered_map<const ir::Node*, const ir::Node*> matched_nodes(const ir::Model& model,
                                                                   const ir::Model& other) {
  const auto counts = nodes_of_observers(model);
  const auto counts_there = nodes_of_observers(other);
  std::unordered_map<std::string, const ir::Node*> named;
  std::unordered_map<std::string, const ir::Node*> observers;
  for (const ir::Node* node : ir::nodes_in_order(*other.graph)) {
    named.emplace(name_of(other, node), node);
    if (ir::is_observer(node) && counts_there.at(ir::observer_of(other, node).name) == 1)
      observers.emplace(ir::observer_of(other, node).name, node);
  }
  std::unordered_map<const ir::Node*, const ir::Node*> matched;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (const auto found = named.find(name_of(model, node)); found != named.end()) {
      matched.emplace(node, found->second);
    } else if (ir::is_observer(node) && counts.at(ir::observer_of(model, node).name) == 1) {
      const auto by_name = observers.find(ir::observer_of(model, node).name);
      if (by_name != observers.end()) matched.emplace(node, by_name->second);
    }
  }
  return matched;
}

/// Whether convert finds mean errors: of a model with values that are rounded by ranges of calibration.
bool corrects_means(const ir::Model& model, const passes::PassContext& context) {
  return context.options.recipe == Recipe::Best &&
         std::ranges::any_of(ir::nodes_in_order(*model.graph), [&](const ir::Node* node) {
           return operators::is_static_rounding(model, node);
         });
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
             {.corrects_means = corrects_means(settled_, context_),
              .rounded = graph_.exact ? &graph_.rounded : nullptr}),
      in_graph_(matched_nodes(settled_, graph_.exact ? *graph_.exact : settled_)) {
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
  std::unordered_set<const ir::Node*> rounded_values;
  for (std::size_t i = 0; i < observers_.size(); ++i) {
    if (!plan.values.at(i).is_rounded) continue;
    rounded_values.insert(observers_[i]);
    const auto before = repeated_.find(observers_[i]);
    if (before == repeated_.end() || !rounded_values.contains(before->second)) rounded.insert(observers_[i]);
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
