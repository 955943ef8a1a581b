// Google Benchmark of prepare, convert and lower over the number of layers: the time of a layer must not grow
// with the graph.
//   tsq_graph_benchmarks --benchmark_filter='best/.*/(50|800)$' --benchmark_repetitions=3
// The network is a chain of convolutions with batch norm and ReLU, whose blocks share their classes, as those
// of a scripted model do. Ranges are those of one batch. "reload" is what LibTorch takes to save the results
// of convert and lower and to load them again, once each, as the trial does: it grows with the square of the
// number of children of a module. Complexities (BigO) are those of a fit of N, the number of layers.

#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <tsq/engine_lock.h>
#include <tsq/libtorch_warnings.h>
#include <tsq/tsq.h>

#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "support/small_models.h"

namespace tsq::benchmarks {
namespace {

using torch::jit::Module;

constexpr const char* kBackend = "x86";
constexpr at::QEngine kEngine = at::QEngine::X86;
constexpr int64_t kChannels = 4;

Module block() {
  Module module = testing::user_module("Block");
  module.register_module("conv", testing::conv2d(kChannels, kChannels, 1));
  module.register_module("bn", testing::batch_norm2d(kChannels));
  module.register_module("relu", testing::relu());
  module.define("def forward(self, x):\n  return self.relu.forward(self.bn.forward(self.conv.forward(x)))\n");
  return module;
}

Module chain(int64_t layers) {
  const Module first = block();
  Module module = testing::user_module("Chain");
  std::string forward = "def forward(self, x):\n";
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string name = fmt::format("layer{}", layer);
    module.register_module(name, first.deepcopy());
    forward += fmt::format("  x = self.{}.forward(x)\n", name);
  }
  module.define(forward + "  return x\n");
  module.eval();
  return module;
}

/// A model in all of its stages.
struct Stages {
  Module model;
  Prepared prepared;
  Reference reference;
  Lowered lowered;
};

struct Configuration {
  Recipe recipe;
  BackendConfig backend;
  QConfigMapping mapping;
};

Configuration configuration_of(Recipe recipe) {
  return {recipe, mode_backend_config(QuantizeMode::Static, recipe, backend_config(kBackend)),
          mode_qconfig_mapping(QuantizeMode::Static, recipe, kBackend)};
}

Prepared prepared_model(const Module& model, const Configuration& configuration) {
  return prepare(model, configuration.mapping, configuration.backend, {.recipe = configuration.recipe});
}

std::unique_ptr<const Stages> stages_of(const Configuration& configuration, int64_t layers) {
  at::manual_seed(1);
  const Module model = chain(layers);
  Prepared prepared = prepared_model(model, configuration);
  const std::vector<Sample> samples{{at::randn({1, kChannels, 2, 2})}};
  calibrate(prepared, samples);
  Reference reference = convert_to_reference(prepared, configuration.backend);
  Lowered lowered = lower(reference, configuration.backend);
  return std::make_unique<const Stages>(
      Stages{model, std::move(prepared), std::move(reference), std::move(lowered)});
}

Module reloaded(const Module& module) {
  const EngineHold hold(kEngine);
  std::stringstream file;
  module.save(file);
  return torch::jit::load(file);
}

using Step = std::function<void(const Configuration&, const Stages&)>;

const std::vector<std::pair<std::string, Step>>& steps() {
  static const std::vector<std::pair<std::string, Step>> all{
      {"prepare",
       [](const Configuration& configuration, const Stages& stages) {
         benchmark::DoNotOptimize(prepared_model(stages.model, configuration));
       }},
      {"convert",
       [](const Configuration& configuration, const Stages& stages) {
         benchmark::DoNotOptimize(convert_to_reference(stages.prepared, configuration.backend));
       }},
      {"lower",
       [](const Configuration& configuration, const Stages& stages) {
         benchmark::DoNotOptimize(lower(stages.reference, configuration.backend));
       }},
      {"reload",
       [](const Configuration&, const Stages& stages) {
         benchmark::DoNotOptimize(reloaded(stages.reference.module()));
         benchmark::DoNotOptimize(reloaded(stages.lowered.module()));
       }},
  };
  return all;
}

/// The stages of each size, made when a step is first measured on it.
class Models {
 public:
  explicit Models(Recipe recipe) : configuration_(configuration_of(recipe)) {}

  const Configuration& configuration() const { return configuration_; }
  const Stages& stages(int64_t layers) {
    auto& found = stages_[layers];
    if (found == nullptr) found = stages_of(configuration_, layers);
    return *found;
  }

 private:
  Configuration configuration_;
  std::map<int64_t, std::unique_ptr<const Stages>> stages_;
};

void run(benchmark::State& state, Models& models, const Step& step) {
  const Stages& stages = models.stages(state.range(0));
  for ([[maybe_unused]] auto _ : state) step(models.configuration(), stages);
  state.SetComplexityN(state.range(0));
  state.counters["a layer"] =
      benchmark::Counter(static_cast<double>(state.range(0)),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void add_all(const std::string& recipe, Models& models) {
  for (const auto& [name, step] : steps()) {
    auto* added = benchmark::RegisterBenchmark(
        fmt::format("{}/{}", recipe, name).c_str(),
        [&models, step = step](benchmark::State& state) { run(state, models, step); });
    for (const int64_t layers : {50, 200, 800, 3200, 12800}) added->Arg(layers);
    added->Unit(benchmark::kMillisecond)->Complexity(benchmark::oN);
  }
}

}  // namespace
}  // namespace tsq::benchmarks

int main(int argc, char** argv) {
  tsq::silence_libtorch();
  tsq::benchmarks::Models best(tsq::Recipe::Best);
  tsq::benchmarks::Models fx(tsq::Recipe::Fx);
  tsq::benchmarks::add_all("best", best);
  tsq::benchmarks::add_all("fx", fx);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
