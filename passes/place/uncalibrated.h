#pragma once

#include "ir/model.h"

namespace tsq::passes {

/// Whether a prepared model has observers that need data, and none of them has seen any.
[[nodiscard]] bool is_uncalibrated(const ir::Model& model);

/// Whether an observer is there for a range; others look at channels.
[[nodiscard]] bool observes_values(const ir::ObserverEntry& entry);
/// Whether an observer that is there for a range has seen data; true of others.
[[nodiscard]] bool was_reached(const ir::ObserverEntry& entry);

}  // namespace tsq::passes
