#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/engine_lock.h>

#include <vector>

#include "backends/kernels/engine.h"
#include "backends/kernels/target.h"

namespace tsq::kernels {

/// A hold of the process's engine for one packing of weights, one load or one call: the only place where the
/// library sets LibTorch's engine (see tsq/engine_lock.h for who waits for whom). It is not taken around work
/// that itself starts threads which pack, load or call, nor around a calibration or a trial.
class [[nodiscard]] EnginePacking {
 public:
  explicit EnginePacking(at::QEngine engine) : engine_(engine), hold_(engine) {}
  explicit EnginePacking(const Target& target) : EnginePacking(engine_from_name(target.engine)) {}

  /// When nobody holds an engine any more, this one is set, and not the one before it.
  void keep_for_process() const { set_engine(engine_); }

 private:
  at::QEngine engine_;
  EngineHold hold_;
};

/// What the module's forward returns, without gradients and under a hold of the engine: every module that may
/// hold packed weights is run so. It may write into the tensors of `inputs`.
at::IValue run_with_engine(const torch::jit::Module& module, at::QEngine engine,
                           std::vector<at::IValue> inputs);

}  // namespace tsq::kernels
