#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/qconfig.h>

#include "ir/observer_entry.h"

namespace tsq::passes {

/// What a calibrated observer has found. Safe to call from several threads.
ir::ObserverResult observer_result(const ObserverSpec& spec, const torch::jit::Module& observer);

}  // namespace tsq::passes
