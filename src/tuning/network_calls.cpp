#include "tuning/network_calls.h"

#include <tsq/runtime_library.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "backends/kernels/call_work.h"
#include "backends/kernels/engine_packing.h"
#include "backends/kernels/machine_profile.h"
#include "backends/kernels/program_work.h"
#include "backends/kernels/time_rows.h"
#include "io/samples.h"
#include "pipeline/operator_watch.h"
#include "runtime/program/program_json.h"
#include "tuning/interpreter.h"

namespace tsq::tuning {
namespace {

using Arguments = std::span<const c10::IValue>;

bool is_codes(const c10::IValue& value) {
  if (value.isTensorList()) {
    const auto tensors = value.toTensorVector();
    return !tensors.empty() && tensors.front().is_quantized();
  }
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_quantized();
}

/// Whether an engine has a kernel of its own for it.
bool is_of_engine(std::string_view name, Arguments arguments) {
  return name.starts_with("quantized::") || name.starts_with("aten::quantized_") ||
         (!arguments.empty() && is_codes(arguments.front()));
}

runtime::Dtype dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kByte:
      return runtime::Dtype::U8;
    case at::kChar:
      return runtime::Dtype::S8;
    case at::kLong:
      return runtime::Dtype::I64;
    default:
      return runtime::Dtype::F32;
  }
}

/// The program that an object of the runtime's class holds.
runtime::Model program_of(const c10::IValue& object) {
  std::vector<c10::IValue> stack{object};
  object.type()->expectRef<c10::ClassType>().getMethod("__getstate__").run(stack);
  const auto& state = stack.front().toTupleRef().elements();
  runtime::Model model{.program = runtime::program_from_json(state[0].toStringRef())};
  for (const at::Tensor& constant : state[1].toTensorVector()) {
    model.constants.push_back({.dtype = dtype_of(constant),
                               .shape = constant.sizes().vec(),
                               .data = {constant.const_data_ptr(), [constant](const void*) {}}});
  }
  return model;
}

void add_program(Arguments arguments, std::vector<NetworkPart>& parts) {
  const runtime::Model model = program_of(arguments[0]);
  std::vector<runtime::Shape> inputs;
  for (const at::Tensor& tensor : arguments[1].toTensorVector()) inputs.push_back(tensor.sizes().vec());
  const auto operations = kernels::operations_of_program(model, inputs, arguments[2].toIntVector());
  for (const kernels::OperationWork& operation : operations)
    parts.push_back({.name = operation.name, .engine = "fused", .work = operation.work});
  parts.push_back({.name = kernels::kProgramCall,
                   .engine = "fused",
                   .work = kernels::program_call_work(model, inputs, operations.size())});
}

std::string full_name(const at::RecordFunction& function) {
  const auto& name = function.operator_name();
  if (!name) return function.name();
  return name->overload_name.empty() ? name->name : name->name + "." + name->overload_name;
}

}  // namespace

NetworkCalls calls_of_network(const torch::jit::Module& module, const std::string& engine,
                              const Sample& sample) {
  NetworkCalls found;
  // Sizes of what is taken, before the operator writes into it.
  std::vector<c10::IValue> taken;
  const auto begins = [&](const at::RecordFunction& function) {
    const Arguments arguments = detail::arguments_of(function);
    taken.assign(arguments.begin(), arguments.end());
  };
  const auto ended = [&](const at::RecordFunction& function) {
    const std::string name = function.name();
    if (name == kProgramOperator) return add_program(taken, found.parts);
    const std::string of_engine = is_of_engine(name, taken) ? engine : "";
    found.parts.push_back({.name = name,
                           .engine = of_engine,
                           .work = kernels::work_of_call(name, taken, detail::results_of(function))});
    found.calls.push_back({.name = full_name(function), .engine = of_engine, .arguments = taken});
  };
  const at::NoGradGuard no_grad;
  std::size_t nodes = 0;
  Sample inputs = detail::copy_of(sample);
  {
    const auto counted = [&](const at::RecordFunction& function) {
      ++nodes;
      ended(function);
    };
    const detail::OperatorWatch watch(begins, counted, /*with_outputs=*/true);
    (void)kernels::run_with_engine(module, engine_from_name(engine), std::move(inputs));
  }
  found.parts.push_back({.name = kInterpreter, .work = interpreter_work(nodes)});
  return found;
}

PredictedNetwork predicted(const MachineProfile& profile, const NetworkCalls& calls, int threads) {
  PredictedNetwork result;
  for (const NetworkPart& part : calls.parts) {
    const kernels::Kernel kernel{.name = part.name, .engine = part.engine, .threads = threads};
    const auto time = kernels::nanoseconds(profile, kernel, part.work);
    result.nanoseconds += time.value_or(0);
    const std::string name = kernels::name_of(kernel);
    if (!time && std::ranges::find(result.unknown, name) == result.unknown.end())
      result.unknown.push_back(name);
  }
  return result;
}

std::vector<PredictedKind> predicted_kinds(const MachineProfile& profile, const NetworkCalls& calls,
                                           int threads) {
  std::map<std::string, PredictedKind> by_name;
  for (const NetworkPart& part : calls.parts) {
    const std::string name = kernels::name_of(kernels::time_rows(part.name, part.work).front(), part.engine);
    PredictedKind& kind = by_name[name];
    kind.kind = name;
    ++kind.calls;
    const kernels::Kernel kernel{.name = part.name, .engine = part.engine, .threads = threads};
    kind.nanoseconds += kernels::nanoseconds(profile, kernel, part.work).value_or(0);
  }
  std::vector<PredictedKind> kinds;
  for (auto& [name, kind] : by_name) kinds.push_back(std::move(kind));
  std::ranges::sort(kinds, std::ranges::greater{}, &PredictedKind::nanoseconds);
  return kinds;
}

double measured(const torch::jit::Module& module, const std::string& engine, const Sample& sample,
                double seconds) {
  using Clock = std::chrono::steady_clock;
  const at::NoGradGuard no_grad;
  const kernels::EnginePacking hold(engine_from_name(engine));
  constexpr std::size_t kWarmUp = 5;
  constexpr std::size_t kFewest = 15;
  std::vector<double> times;
  const auto method = module.get_method("forward");
  const auto begin = Clock::now();
  for (std::size_t call = 0;; ++call) {
    std::vector<c10::IValue> arguments = detail::copy_of(sample);
    const auto start = Clock::now();
    const c10::IValue result = method(std::move(arguments));
    const std::chrono::duration<double, std::nano> taken = Clock::now() - start;
    if (call >= kWarmUp) times.push_back(taken.count());
    const std::chrono::duration<double> all = Clock::now() - begin;
    if (times.size() >= kFewest && all.count() > seconds) return lower_quartile(std::move(times));
  }
}

}  // namespace tsq::tuning
