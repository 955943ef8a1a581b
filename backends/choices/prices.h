#pragma once

#include <tsq/decision.h>

#include <optional>

#include "backends/choices/choices.h"

namespace tsq::kernels {

/// What an operator of the calibrated graph takes in float and in int8: its kernel, and the roundings between
/// it and its neighbours as these are placed. By the target's profile, on one thread, at the largest sizes
/// that calibration saw. None where it has no int8 kernel, or the profile does not know one of both.
[[nodiscard]] std::optional<OperatorPrice> price_of(const Target& target, const ir::Model& model,
                                                    const ir::Node* op, Catalogue& catalogue);

}  // namespace tsq::kernels
