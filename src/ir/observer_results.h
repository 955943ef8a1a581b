#pragma once

#include <optional>

#include "ir/observer_entry.h"
#include "observers/rounding_noise.h"

/// What calibrated observers have found. Safe to call from several threads.
namespace tsq::ir {

/// What an observer said when it was asked before; else it is asked now, which searches for a range.
[[nodiscard]] ObserverResult result_of(const ObserverEntry& entry);

/// What rounding to the codes of an observer adds to its value, from all samples together. None where it has
/// not counted values, or where they were all 0.
[[nodiscard]] std::optional<RoundingNoise> noise_of(const ObserverEntry& entry);

}  // namespace tsq::ir
