#include <torch/csrc/jit/api/module.h>
#include <tsq/bench/machine.h>
#include <tsq/tune.h>

#include <algorithm>

#include "backends/kernels/engine_packing.h"
#include "backends/kernels/machine_profile.h"
#include "backends/kernels/thread_count.h"
#include "tuning/fitted_profile.h"
#include "tuning/measured_calls.h"
#include "tuning/network_calls.h"

namespace tsq {
namespace {

void add_measured(const tuning::MeasuredCall& call, MachineProfile& profile) {
  const kernels::Kernel kernel{.name = call.name, .engine = call.engine, .threads = call.threads};
  const MeasuredKernel measured{.kernel = kernels::name_of(kernel),
                                .threads = call.threads,
                                .work = kernels::sizes_of(call.work),
                                .nanoseconds = call.nanoseconds};
  const auto is_same = [&](const MeasuredKernel& each) {
    return each.kernel == measured.kernel && each.threads == measured.threads && each.work == measured.work;
  };
  if (std::ranges::none_of(profile.measured, is_same)) profile.measured.push_back(measured);
}

/// A copy with packed weights of its own: those of LibTorch are fast with the number of threads of their
/// first call alone.
torch::jit::Module packed_anew(const torch::jit::Module& model, const std::string& engine) {
  const kernels::EnginePacking packing(engine_from_name(engine));
  torch::jit::Module copy = model.deepcopy();
  copy.eval();
  return copy;
}

}  // namespace

MachineProfile tune(const TuneOptions& options) {
  MachineProfile profile{.name = options.name, .processor = bench::this_machine().processor};
  tuning::fit(tuning::measured_calls(options), profile);
  return profile;
}

void measure_model(const torch::jit::Module& model, const std::string& engine, const Sample& sample,
                   const TuneOptions& options, MachineProfile& profile) {
  tuning::keep_memory();
  tuning::keep_few_primitives();
  for (const int threads : options.threads) {
    const kernels::ThreadCount count(threads);
    const torch::jit::Module own = packed_anew(model, engine);
    for (const tuning::KernelCall& call : tuning::calls_of_network(own, engine, sample).calls) {
      if (const auto measured = tuning::measure(call, options.passes * options.rounds))
        add_measured(*measured, profile);
    }
  }
}

}  // namespace tsq
