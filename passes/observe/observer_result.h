#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>

#include <optional>

#include "ir/graph_module.h"

namespace tsq::passes {

/// What an observer found.
struct ObserverResult {
  bool saw_data{true};
  std::optional<QParams> qparams{};  ///< none for observers without (placeholders)
  bool saw_other_dtype{false};       ///< a tensor that is not float32, and so cannot be quantized
};

/// What a calibrated observer found.
ObserverResult observer_result(const ObserverSpec& spec, const torch::jit::Module& observer);
/// Whether some node still names the observer (shared ones leave others without a use).
bool uses_observer(const ir::GraphModule& gm, std::size_t observer);

}  // namespace tsq::passes
