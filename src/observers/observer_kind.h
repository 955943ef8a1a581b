#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>
#include <tsq/qconfig.h>

#include <memory>
#include <string_view>

#include "observers/compiled_observer.h"
#include "observers/observer_class.h"

namespace tsq {

/// What the library knows of one observer class. The functions have the contracts of observer_module.h.
struct ObserverKind {
  std::string_view name{};  ///< PyTorch's class name
  /// TorchScript that defines `observe(self, x: Tensor) -> Tensor`, and what it calls.
  std::string_view source{};
  std::string_view helpers{};
  /// The attributes of a fresh one, but for those of observer_state.
  ObserverState (*state)(const ResolvedObserver& config){};
  /// Null for a class without qparams (M-19), as is observe_once. Both, and merge, are called without
  /// gradients.
  QParams (*calculate_qparams)(const torch::jit::Module& observer){};
  QParams (*observe_once)(const ResolvedObserver& config, const at::Tensor& tensor){};
  /// What `observe` of the source does, compiled, for calibration in this process. Returns null, or is it,
  /// where the source must do it.
  std::unique_ptr<CompiledObserver> (*compiled)(const torch::jit::Module& observer){};
  /// Null for a class that needs no data.
  bool (*saw_data)(const torch::jit::Module& observer){};
  /// Null where there is nothing to add.
  void (*merge)(torch::jit::Module& into, const torch::jit::Module& from){};
};

extern const ObserverKind min_max_observer;
extern const ObserverKind moving_average_min_max_observer;
extern const ObserverKind per_channel_min_max_observer;
extern const ObserverKind moving_average_per_channel_min_max_observer;
extern const ObserverKind histogram_observer;
extern const ObserverKind fixed_qparams_observer;
extern const ObserverKind placeholder_observer;
extern const ObserverKind noop_observer;
extern const ObserverKind recording_observer;
extern const ObserverKind reuse_input_observer;
extern const ObserverKind identity_observer;
extern const ObserverKind input_equalization_observer;
extern const ObserverKind channel_statistics_observer;
extern const ObserverKind branch_observer;
extern const ObserverKind input_products_observer;
extern const ObserverKind mse_observer;
extern const ObserverKind percentile_observer;
extern const ObserverKind entropy_observer;

}  // namespace tsq
