#include "tuning/measured_calls.h"

#include <tsq/bench/statistics.h>
#include <tsq/engines.h>
#include <tsq/runtime_library.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "backends/kernels/engine_packing.h"
#include "backends/kernels/thread_count.h"
#include "base/known_engines.h"
#include "tuning/drawn_program.h"
#include "tuning/interpreter.h"

namespace tsq::tuning {
namespace {

constexpr int kFewestCalls = 8;

std::uint64_t seed_of(std::uint64_t seed, std::string_view name, std::string_view engine) {
  std::uint64_t mixed = seed;
  for (const std::string_view text : {name, engine}) {
    for (const char letter : text) mixed = mixed * 1099511628211U + static_cast<unsigned char>(letter);
  }
  return mixed;
}

int number_of_calls(int usual, double effort) {
  return std::max(kFewestCalls, static_cast<int>(usual * effort));
}

std::vector<std::string> engines_of(const TuneOptions& options) {
  if (!options.engines.empty()) return options.engines;
  const auto known = known_engines();
  return {known.begin(), known.end()};
}

/// Calls of one kernel, to be drawn when they are measured.
struct DrawnCalls {
  const DrawnKernel* kernel{};
  std::string engine{};
};

std::vector<DrawnCalls> calls_to_draw(const TuneOptions& options) {
  std::vector<DrawnCalls> all;
  for (const auto& kernels : {drawn_layers(), drawn_operators()}) {
    for (const DrawnKernel& kernel : kernels) {
      if (!kernel.of_engine) all.push_back({&kernel, ""});
      if (!kernel.of_engine) continue;
      for (const std::string& engine : engines_of(options)) all.push_back({&kernel, engine});
    }
  }
  return all;
}

/// All kernels and operations, and how far they are measured.
struct Work {
  const TuneOptions& options;
  std::vector<DrawnCalls> kernels{};
  std::span<const DrawnOperation> operations{};
  std::size_t done{0};

  void count() {
    ++done;
    const std::size_t of_pass = options.threads.size() * (kernels.size() + operations.size());
    if (options.progress) options.progress(done, of_pass * static_cast<std::size_t>(options.passes));
  }
};

std::optional<KernelCall> drawn_call(const DrawnCalls& drawn, Draw& draw) {
  const kernels::EnginePacking hold(engine_from_name(drawn.engine.empty() ? "none" : drawn.engine));
  try {
    KernelCall call = drawn.kernel->call(draw, *drawn.kernel);
    call.engine = drawn.engine;
    return call;
  } catch (const c10::Error&) {
    return std::nullopt;  // the engine cannot pack it
  }
}

void measure_kernel(const DrawnCalls& drawn, const TuneOptions& options, std::vector<MeasuredCall>& calls) {
  Draw draw(seed_of(options.seed, drawn.kernel->name, drawn.engine));
  for (int i = number_of_calls(drawn.kernel->calls, options.effort); i > 0; --i) {
    const auto call = drawn_call(drawn, draw);
    if (!call) continue;
    if (auto measured = measure(*call, options.rounds, kTooSlow)) calls.push_back(*std::move(measured));
  }
}

void measure_operation(const DrawnOperation& operation, const TuneOptions& options,
                       std::vector<MeasuredCall>& calls) {
  Draw draw(seed_of(options.seed, operation.name, "fused"));
  for (int i = number_of_calls(operation.programs, options.effort); i > 0; --i) {
    for (MeasuredCall& call : measure(operation.program(draw, operation), options.rounds))
      calls.push_back(std::move(call));
  }
}

std::vector<MeasuredCall> measure_all(Work& work) {
  std::vector<MeasuredCall> calls = measure_interpreter(work.options.rounds);
  for (const DrawnCalls& drawn : work.kernels) {
    measure_kernel(drawn, work.options, calls);
    work.count();
  }
  for (const DrawnOperation& operation : work.operations) {
    measure_operation(operation, work.options, calls);
    work.count();
  }
  return calls;
}

/// The median of each call's times, of those that were measured.
std::vector<MeasuredCall> medians(std::vector<std::vector<MeasuredCall>> passes) {
  std::vector<MeasuredCall> calls = std::move(passes.front());
  std::vector<double> times(passes.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    times[0] = calls[i].nanoseconds;
    for (std::size_t pass = 1; pass < passes.size(); ++pass) times[pass] = passes[pass].at(i).nanoseconds;
    calls[i].nanoseconds = bench::median(times);
  }
  std::erase_if(calls, [](const MeasuredCall& call) { return !std::isfinite(call.nanoseconds); });
  return calls;
}

}  // namespace

std::vector<MeasuredCall> measured_calls(const TuneOptions& options) {
  keep_memory();
  keep_few_primitives();
  Work work{.options = options, .kernels = calls_to_draw(options)};
  if (load_runtime_library().empty()) work.operations = drawn_operations();
  std::vector<MeasuredCall> calls;
  // All passes of one number of threads before the next: a call with one thread takes 1.1 times as long, a
  // small one 1.4 times, in a process that computes with two in between.
  for (const int threads : options.threads) {
    const kernels::ThreadCount count(threads);
    std::vector<std::vector<MeasuredCall>> passes;
    for (int pass = 0; pass < options.passes; ++pass) passes.push_back(measure_all(work));
    for (MeasuredCall& call : medians(std::move(passes))) calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace tsq::tuning
