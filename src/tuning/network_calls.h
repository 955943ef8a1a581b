#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/machine_profile.h>
#include <tsq/sample.h>

#include <string>
#include <vector>

#include "backends/kernels/kernel_work.h"
#include "tuning/kernel_call.h"

/// The kernels that a network calls.
namespace tsq::tuning {

/// What a call of a network does in one operator, or in one operation of a fused program.
struct NetworkPart {
  std::string name{};    ///< of the kernel
  std::string engine{};  ///< as in kernels::Kernel
  kernels::KernelWork work{};
};

struct NetworkCalls {
  std::vector<NetworkPart> parts{};  ///< in their order
  /// The operators of LibTorch among them, with what they took, to be called again.
  std::vector<KernelCall> calls{};
};

/// Runs the network once with the engine.
[[nodiscard]] NetworkCalls calls_of_network(const torch::jit::Module& module, const std::string& engine,
                                            const Sample& sample);

struct PredictedNetwork {
  double nanoseconds{0};
  std::vector<std::string> unknown{};  ///< kernels without a time, each once
};
[[nodiscard]] PredictedNetwork predicted(const MachineProfile& profile, const NetworkCalls& calls,
                                         int threads);

/// What the kernels of a kind take together.
struct PredictedKind {
  std::string kind{};
  std::size_t calls{0};
  double nanoseconds{0};
};
/// By falling time.
[[nodiscard]] std::vector<PredictedKind> predicted_kinds(const MachineProfile& profile,
                                                         const NetworkCalls& calls, int threads);

/// Nanoseconds of a call: the lower quartile of calls, after some that do not count.
[[nodiscard]] double measured(const torch::jit::Module& module, const std::string& engine,
                              const Sample& sample, double seconds);

}  // namespace tsq::tuning
