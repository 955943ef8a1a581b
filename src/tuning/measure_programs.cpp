#include <ATen/Parallel.h>
#include <ATen/core/class_type.h>
#include <ATen/core/function.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backends/kernels/program_work.h"
#include "runtime/program/program_json.h"
#include "tuning/drawn_program.h"

namespace tsq::tuning {
namespace {

constexpr double kOfMicrosecond = 1e3;
/// Nanoseconds: clocks are around operations, and none around the call.
constexpr double kLeastCall = 100;

/// A program that is loaded, and what was measured of it.
struct Loaded {
  const DrawnProgram* drawn{};
  c10::IValue program{};
  std::vector<kernels::OperationWork> operations{};
  std::vector<std::vector<double>> times{};  ///< of each operation
  std::vector<double> within{};              ///< of all operations of a call
  std::vector<double> calls{};
};

std::vector<c10::IValue> arguments_of(const Loaded& loaded) {
  return {loaded.program, c10::List<at::Tensor>({loaded.drawn->input}), c10::List<std::int64_t>()};
}

/// Nanoseconds of each operation in one call.
std::vector<double> operation_times(const Loaded& loaded) {
  std::vector<c10::IValue> stack = arguments_of(loaded);
  stack.emplace_back(std::int64_t{1});
  const auto& type = loaded.program.type()->expectRef<c10::ClassType>();
  type.getMethod("profile").run(stack);
  const auto steps = nlohmann::json::parse(stack.front().toStringRef());
  std::vector<double> times(loaded.operations.size(), 0);
  for (const nlohmann::json& step : steps) {
    const auto operation = step.at("operation").get<std::size_t>();
    if (operation < times.size()) times[operation] += step.at("microseconds").get<double>() * kOfMicrosecond;
  }
  return times;
}

Loaded loaded(const DrawnProgram& drawn) {
  Loaded program{.drawn = &drawn};
  program.program = Operator("tsq::make_program")(
      {runtime::to_json(drawn.model.program), c10::List<at::Tensor>(drawn.constants)});
  program.operations = kernels::operations_of_program(drawn.model, {drawn.input.sizes().vec()}, {});
  program.times.resize(program.operations.size());
  return program;
}

/// In the state in which a network calls it, as calls of kernels are.
void measure_once(Loaded& program, const Operator& run) {
  (void)nanoseconds_of(run, arguments_of(program));
  leave_second_cache();
  write(program.drawn->input);
  const std::vector<double> times = operation_times(program);
  for (std::size_t i = 0; i < times.size(); ++i) program.times[i].push_back(times[i]);
  program.within.push_back(std::accumulate(times.begin(), times.end(), 0.0));
  if (!program.drawn->shows_call) return;
  leave_second_cache();
  write(program.drawn->input);
  program.calls.push_back(nanoseconds_of(run, arguments_of(program)));
}

std::vector<MeasuredCall> measured_operations(Loaded& loaded) {
  const int threads = at::get_num_threads();
  std::vector<MeasuredCall> measured;
  for (std::size_t i = 0; i < loaded.operations.size(); ++i) {
    measured.push_back({.name = loaded.operations[i].name,
                        .engine = "fused",
                        .threads = threads,
                        .work = loaded.operations[i].work,
                        .nanoseconds = lower_quartile(std::move(loaded.times[i]))});
  }
  const double within = lower_quartile(std::move(loaded.within));
  if (!loaded.drawn->shows_call) return measured;
  measured.push_back({.name = kernels::kProgramCall,
                      .engine = "fused",
                      .threads = threads,
                      .work = kernels::program_call_work(
                          loaded.drawn->model, {loaded.drawn->input.sizes().vec()}, loaded.operations.size()),
                      .nanoseconds = std::max(kLeastCall, lower_quartile(std::move(loaded.calls)) - within)});
  return measured;
}

std::vector<MeasuredCall> not_measured(Loaded loaded) {
  for (std::vector<double>& times : loaded.times) times = {kNotMeasured};
  loaded.within = {0};
  loaded.calls = {kNotMeasured};
  return measured_operations(loaded);
}

}  // namespace

std::vector<MeasuredCall> measure(const DrawnProgram& program, int rounds) {
  const Operator run("tsq::run");
  try {
    Loaded measured = loaded(program);
    const std::vector<double> first = operation_times(measured);
    if (std::accumulate(first.begin(), first.end(), 0.0) > kTooSlow) return not_measured(std::move(measured));
    for (int round = 0; round < rounds; ++round) measure_once(measured, run);
    return measured_operations(measured);
  } catch (const std::exception&) {
    return {};  // these sizes have no kernel
  }
}

}  // namespace tsq::tuning
