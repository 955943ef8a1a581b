#pragma once

#include <tsq/machine_profile.h>
#include <tsq/progress.h>
#include <tsq/sample.h>

#include <cstdint>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

/// Times of kernels, taken on this machine.
namespace tsq {

struct TuneOptions {
  std::string name{"this machine"};    ///< of the profile
  std::vector<int> threads{1, 2};      ///< with how many threads kernels are measured
  std::vector<std::string> engines{};  ///< whose kernels; empty: of all that this LibTorch has
  std::uint64_t seed{1};               ///< of the sizes that are drawn
  double effort{1};                    ///< how many sizes are drawn, in parts of the usual number
  int passes{3};                       ///< over all kernels
  int rounds{4};                       ///< in which a call is measured, in each pass
  Progress progress{};                 ///< counts kernels, in all passes
};

/// Measures kernels at random sizes, those of fused programs too where libtsq_runtime can be loaded, and fits
/// the time model to them: nothing else should run meanwhile. Throws Error(Unsupported) for an engine that
/// this LibTorch does not have.
[[nodiscard]] MachineProfile tune(const TuneOptions& options = {});

/// Measures the kernels that a model calls at its own sizes, with that engine, and adds them to the profile.
/// Throws Error(BadData) when the model cannot run on the sample.
void measure_model(const torch::jit::Module& model, const std::string& engine, const Sample& sample,
                   const TuneOptions& options, MachineProfile& profile);

}  // namespace tsq
