#include "trial/plan_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "pipeline/float_layers.h"

namespace tsq::detail {

PlanTrials::Tried PlanTrials::make(const PricedPlan& priced) {
  Reference reference =
      convert_to_reference(prepared_, backend_, {.custom = options_.custom, .plan = priced.plan});
  Lowered lowered = lower(reference, backend_, options_.lowering);
  const Report& report = lowered.report();
  const auto is_float = [&](const QuantizedLayer& layer) { return !is_quantized(report, layer); };
  if (!layers_) {
    layers_ = calibrated(prepared_).layers;
    std::erase_if(*layers_, is_float);
  }
  std::vector<QuantizedLayer> kept;
  std::ranges::copy_if(*layers_, std::back_inserter(kept), is_float);
  return {.reference = std::move(reference), .lowered = std::move(lowered), .kept = std::move(kept)};
}

bool PlanTrials::tell(GoalTrial trial) {
  trials_.push_back(std::move(trial));
  if (options_.on_trial) options_.on_trial(trials_.back());
  return trials_.back().reached;
}

std::vector<QuantizedLayer> PlanTrials::kept_anew(const ScoreAnew& anew,
                                                  std::vector<QuantizedLayer> kept) const {
  return anew.is_all_float && layers_ ? *layers_ : kept;
}

GoalSearch PlanTrials::found(const PricedPlan& priced, Reference reference, std::vector<QuantizedLayer> kept,
                             double score) const {
  QConfigMapping mapping = keep_float(stage_of(prepared_).mapping, kept);
  return {.reached = true,
          .reference = std::move(reference),
          .kept = std::move(kept),
          .mapping = std::move(mapping),
          .decibel_price = priced.decibel_price(),
          .score = score,
          .trials = trials_};
}

std::string prediction_text(const PricedPlan& priced) {
  const PlanPrediction& predicted = *priced.plan.prediction;
  const std::string time = fmt::format("predicted {:.3g} ms", 1000 * predicted.seconds);
  return predicted.noise == 0 ? time + ", no noise" : fmt::format("{}, {:.1f} dB", time, priced.decibels());
}

}  // namespace tsq::detail
