#pragma once

#include <tsq/quantize_model.h>

#include <span>
#include <vector>

namespace tsq::detail {

/// Samples to calibrate on, and others to judge by.
struct Fold {
  std::vector<Sample> calibration{};
  std::vector<Sample> trial{};
};

struct SampleSets : Fold {
  std::size_t held_back{0};    ///< of the calibration data, for judging alone
  std::vector<Fold> others{};  ///< other ways to hold as many back: together each sample is held back once
};

/// The last quarter of the samples, at least one; none of fewer than two.
std::span<const Sample> last_part(std::span<const Sample> samples);
/// The last part is there to judge by.
Fold without_last_part(std::span<const Sample> samples);
/// Every fourth sample, from the `first` on, is there to judge by; of a sequence the quarter of that number.
Fold fold(std::span<const Sample> samples, bool is_sequence, std::size_t first);
/// All but that one.
std::vector<Fold> other_folds(std::span<const Sample> samples, bool is_sequence, std::size_t first);

/// A goal that is judged on what was calibrated on says nothing of other data: every fourth is held back.
/// A few of them do not tell how much samples differ: then each is held back once. The samples of a model
/// that keeps state are a sequence.
SampleSets sample_sets(std::span<const Sample> samples, bool is_sequence, const QuantizeOptions& options);

}  // namespace tsq::detail
