// Google Benchmark of LibTorch's kernels at the shapes of real networks, in float and on each engine.
//   tsq_kernel_benchmarks --benchmark_filter='x86/.*' --benchmark_format=json
// One thread; freed memory stays in the process, so that times are those of kernels and not of the system's
// pages. Names: engine/network/layer; "float" is the kernel of float operators.

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/engine_lock.h>
#include <tsq/engines.h>
#include <tsq/libtorch_warnings.h>
#include <tsq/runner.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/known_engines.h"
#include "benchmarks/kernels/network_layers.h"

namespace tsq::benchmarks {
namespace {

using Make = std::function<Call()>;

/// `engine`: NoQEngine for float operators. `count`: what the counter's name says, of one call.
void run(benchmark::State& state, at::QEngine engine, const Make& make, const char* counter, int64_t count) {
  const c10::InferenceMode no_gradients;
  std::optional<EngineHold> hold;
  if (engine != at::QEngine::NoQEngine) hold.emplace(engine);
  try {
    const Call call = make();
    for ([[maybe_unused]] auto _ : state) call();
  } catch (const c10::Error& error) {
    state.SkipWithError(error.what_without_backtrace());
  }
  state.counters[counter] =
      benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsIterationInvariantRate);
}

void add(const std::string& name, at::QEngine engine, const char* counter, int64_t count, Make make) {
  benchmark::RegisterBenchmark(name.c_str(), [=, make = std::move(make)](benchmark::State& state) {
    run(state, engine, make, counter, count);
  })->Unit(benchmark::kMicrosecond);
}

constexpr const char* kProducts = "products";
constexpr const char* kValues = "values";

std::string name_of(const Convolution& convolution) {
  const char* kind = convolution.groups == 1 ? "conv" : "depthwise";
  return fmt::format("{}_{}x{}_{}_to_{}_at_{}_stride_{}", kind, convolution.kernel, convolution.kernel,
                     convolution.channels_in, convolution.channels_out, convolution.size, convolution.stride);
}

std::string name_of(const Linear& linear) {
  return fmt::format("{}_to_{}_rows_{}", linear.in, linear.out, linear.rows);
}

std::string name_of(const Recurrent& lstm) {
  return fmt::format("{}_to_{}_steps_{}", lstm.in, lstm.hidden, lstm.steps);
}

void add_convolutions(const std::string& prefix, at::QEngine engine) {
  const bool is_float = engine == at::QEngine::NoQEngine;
  for (const auto& [network, convolution] : network_convolutions()) {
    add(fmt::format("{}/{}/{}", prefix, network, name_of(convolution)), engine, kProducts,
        products(convolution), [=, convolution = convolution] {
          return is_float ? float_convolution(convolution) : int8_convolution(convolution);
        });
  }
}

void add_linears(const std::string& prefix, at::QEngine engine) {
  for (const auto& [network, layer] : network_linears()) {
    for (const int64_t rows : {1, 128, 2048}) {
      const Linear linear{rows, layer.in, layer.out};
      const auto add_kind = [&](const char* kind, Call (*make)(const Linear&)) {
        add(fmt::format("{}/{}/{}_{}", prefix, network, kind, name_of(linear)), engine, kProducts,
            products(linear), [=] { return make(linear); });
      };
      if (engine == at::QEngine::NoQEngine) {
        add_kind("linear", float_linear);
        continue;
      }
      add_kind("linear", int8_linear);
      add_kind("dynamic_linear", [](const Linear& of) {
        return dynamic_linear(at::randn({of.rows, of.in}), of.out);
      });
      if (runs_fbgemm(prefix))
        add_kind("float_output_linear", [](const Linear& of) {
          return static_linear(at::randn({of.rows, of.in}), of.out);
        });
    }
  }
}

void add_lstms(const std::string& prefix, at::QEngine engine) {
  const bool is_float = engine == at::QEngine::NoQEngine;
  for (const auto& [network, lstm] : network_lstms()) {
    add(fmt::format("{}/{}/lstm_{}", prefix, network, name_of(lstm)), engine, kProducts, products(lstm),
        [=, lstm = lstm] { return is_float ? float_lstm(lstm) : dynamic_lstm(lstm); });
  }
}

void add_operators(const std::string& prefix, at::QEngine engine) {
  for (const NetworkOperator& op : network_operators()) {
    if (op.is_float != (engine == at::QEngine::NoQEngine)) continue;
    for (const auto& [network, sizes] : op.tensors) {
      add(fmt::format("{}/{}/{}_{}", prefix, network, op.name, fmt::join(sizes, "x")), engine, kValues,
          c10::multiply_integers(sizes), [make = op.call, sizes = sizes] { return make(sizes); });
    }
  }
}

void add_all(const std::string& prefix, at::QEngine engine) {
  add_convolutions(prefix, engine);
  add_linears(prefix, engine);
  add_lstms(prefix, engine);
  add_operators(prefix, engine);
}

}  // namespace
}  // namespace tsq::benchmarks

int main(int argc, char** argv) {
  tsq::silence_libtorch();
  tsq::keep_freed_memory();
  at::set_num_threads(1);
  at::manual_seed(0);
  tsq::benchmarks::add_all("float", at::QEngine::NoQEngine);
  for (const at::QEngine engine : at::globalContext().supportedQEngines()) {
    const std::string name = tsq::engine_name(engine);
    if (tsq::is_known_engine(name)) tsq::benchmarks::add_all(name, engine);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
