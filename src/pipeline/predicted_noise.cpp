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

std::shared_ptr<const noise::NoiseByName> noise_of(const Stage& calibrated, std::span<const Sample> samples,
                                                   Rounding rounding) {
  const ir::Model model = settled(calibrated);
  const RoundedGraph graph = rounded_graph(calibrated, rounding);
  const ir::Model& named = graph.exact ? *graph.exact : model;
  const noise::NoiseModel noise(
      named, samples,
      {.items = rounding == Rounding::All ? std::optional(noise::NoiseOptions().samples) : std::nullopt,
       .corrects_means = corrects_means(model, context_of(calibrated)),
       .rounded = graph.exact ? &graph.rounded : nullptr});
  return noise.outputs().empty() ? nullptr : std::make_shared<const noise::NoiseByName>(named, noise);
}

PredictedNoise::PredictedNoise(const Stage& calibrated, std::span<const Sample> samples)
    : planner_(calibrated),
      operators_(passes::planned_operators(planner_.model())),
      observers_(passes::planned_observers(planner_.model())),
      noise_(noise_of(calibrated, samples, Rounding::AsDecided)) {
  if (noise_ == nullptr)
    throw Error(ErrorCode::BadModel, "no output holds floating-point numbers, which gradients come from",
                "leave out --quick (SensitivityOptions::quick), which runs the models instead");
  for (const ir::Node* observer : observers_) {
    if (const ir::Node* before = same_before(planner_.model(), observer)) repeated_.emplace(observer, before);
  }
}

Plan PredictedNoise::plan(const std::map<std::string, std::string>& float_nodes) const {
  return planner_.plan(float_nodes);
}

double PredictedNoise::share(const Plan& plan) const {
  std::vector<double> sums(noise_->outputs());
  const auto add = [&](const ir::Node* node) {
    const std::span<const double> shares = noise_->of_outputs(planner_.model(), node);
    for (std::size_t k = 0; k < shares.size(); ++k) sums[k] += shares[k];
  };
  for (std::size_t i = 0; i < operators_.size(); ++i) {
    if (has_rounded_weight(plan.operators.at(i).placement)) add(operators_[i]);
  }
  std::unordered_set<const ir::Node*> rounded_values;
  for (std::size_t i = 0; i < observers_.size(); ++i) {
    if (!plan.values.at(i).is_rounded) continue;
    rounded_values.insert(observers_[i]);
    const auto before = repeated_.find(observers_[i]);
    if (before == repeated_.end() || !rounded_values.contains(before->second)) add(observers_[i]);
  }
  return std::ranges::max(sums);
}

bool PredictedNoise::is_quantized(const Plan& plan, const QuantizedLayer& layer) const {
  for (std::size_t i = 0; i < operators_.size(); ++i) {
    const Decision* decision = ir::decision_of(planner_.model(), operators_[i]);
    if (decision != nullptr && has_rounded_weight(plan.operators.at(i).placement) &&
        std::ranges::find(layer.nodes, decision->node) != layer.nodes.end())
      return true;
  }
  return false;
}

}  // namespace tsq::detail
