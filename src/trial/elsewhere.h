#pragma once

#include <tsq/target.h>

#include <optional>
#include <span>
#include <vector>

#include "pipeline/stage.h"

namespace tsq::detail {

/// What a calibrated model takes for targets, by the machine's times, from the fastest on. Ranges are those
/// of the target that it was prepared for. None where noise is not known.
std::vector<TargetPrediction> predicted_targets(const Stage& calibrated, std::span<const Target> targets);
/// The same by plans that have as little noise as the model's own, but for half a decibel; targets without
/// one are left out.
std::vector<TargetPrediction> as_accurate_targets(const Stage& calibrated, std::span<const Target> targets);

/// That a model was prepared for.
Target target_of(const Stage& calibrated);
/// All that this machine and a table can have. Programs compute the same whatever the engine of the rest.
std::vector<Target> targets_of(const BackendConfig& backend);

}  // namespace tsq::detail
