#pragma once

#include "ir/model.h"

namespace tsq::passes {

/// Whether a prepared model has observers that need data, and none of them has seen any.
[[nodiscard]] bool is_uncalibrated(const ir::Model& model);

}  // namespace tsq::passes
