// Which samples calibrate, and which judge.

#include "quantize/sample_sets.h"

#include <algorithm>

#include "io/samples.h"
#include "trial/referee.h"

namespace tsq::detail {
namespace {

constexpr std::size_t kFolds = 4;

/// Such a model takes no float samples, or returns no float values: it cannot be held against the float one.
bool has_quantized_ends(const PrepareCustomConfig& custom) {
  return !custom.input_quantized_indexes().empty() || !custom.output_quantized_indexes().empty();
}

}  // namespace

std::span<const Sample> last_part(std::span<const Sample> samples) {
  return samples.last(size_of_last_part(samples.size()));
}

Fold without_last_part(std::span<const Sample> samples) {
  const auto last = last_part(samples);
  const auto others = samples.first(samples.size() - last.size());
  return {.calibration = {others.begin(), others.end()}, .trial = {last.begin(), last.end()}};
}

Fold fold(std::span<const Sample> samples, bool is_sequence, std::size_t first) {
  const std::size_t folds = std::min(kFolds, samples.size());
  Fold result;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t number = is_sequence ? i * folds / samples.size() : i % folds;
    (number == first ? result.trial : result.calibration).push_back(samples[i]);
  }
  return result;
}

std::vector<Fold> other_folds(std::span<const Sample> samples, bool is_sequence, std::size_t first) {
  std::vector<Fold> folds;
  for (std::size_t i = 0; i < std::min(kFolds, samples.size()); ++i) {
    if (i != first) folds.push_back(fold(samples, is_sequence, i));
  }
  return folds;
}

SampleSets sample_sets(std::span<const Sample> samples, bool is_sequence, const QuantizeOptions& options) {
  constexpr std::size_t kFirst = 1;
  SampleSets sets;
  sets.calibration.assign(samples.begin(), samples.end());
  if (has_quantized_ends(options.custom)) return sets;
  sets.trial = options.judged_by.empty() ? sets.calibration : options.judged_by;
  const bool is_judged_on_outputs = options.goal.min_sqnr || options.goal.min_agreement;
  if (!options.judged_by.empty() || !is_judged_on_outputs || samples.size() < 2) return sets;
  static_cast<Fold&>(sets) = fold(samples, is_sequence, kFirst);
  sets.held_back = sets.trial.size();
  if (options.goal.min_sqnr && sets.held_back < kMostTried)
    sets.others = other_folds(samples, is_sequence, kFirst);
  return sets;
}

}  // namespace tsq::detail
