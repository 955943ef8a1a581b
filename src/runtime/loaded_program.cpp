#include "runtime/loaded_program.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/primitives/exact_sums.h"
#include "runtime/primitives/legalize.h"
#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/validate.h"

namespace tsq::runtime {
namespace {

/// Shapes that come in turns; more are compiled again each time.
constexpr std::size_t kCompiledPrograms = 16;

/// The count of threads, the integers, and the sizes and strides of the inputs, one after the other.
void write_key(std::span<const InputTensor> inputs, std::span<const std::int64_t> integers, int threads,
               ProgramCache::Key& key) {
  key.clear();
  key.push_back(threads);
  key.insert(key.end(), integers.begin(), integers.end());
  for (const auto& input : inputs) {
    key.push_back(static_cast<std::int64_t>(input.sizes.size()));
    key.insert(key.end(), input.sizes.begin(), input.sizes.end());
    key.insert(key.end(), input.strides.begin(), input.strides.end());
  }
}

std::vector<View> views_of(std::span<const InputTensor> inputs) {
  std::vector<View> views;
  for (const auto& input : inputs) {
    views.push_back({.dtype = input.dtype,
                     .sizes = Shape(input.sizes.begin(), input.sizes.end()),
                     .strides = Shape(input.strides.begin(), input.strides.end())});
  }
  return views;
}

}  // namespace

LoadedProgram::LoadedProgram(Model model) : model_(std::move(model)), cache_(kCompiledPrograms) {
  validate(model_);
  legal_ = legalized(model_, has_exact_int8_sums());
  const auto float_weights = [](const Model& counted) {
    int count = 0;
    for (const auto& operation : counted.program.operations) {
      const bool product = operation.kind == Kind::Matmul || operation.weight_scales;
      const bool int8 = std::ranges::all_of(operation.inputs, [&](int input) {
        return is_int8(counted.program.values[static_cast<std::size_t>(input)].dtype);
      });
      if (product && int8) ++count;
    }
    return count;
  };
  float_operations_ = float_weights(model_) - float_weights(legal_);
}

void LoadedProgram::check(std::span<const InputTensor> inputs, std::span<const std::int64_t> integers) const {
  const auto& program = model_.program;
  const auto require_count = [](std::size_t given, std::size_t wanted, const char* what) {
    if (given == wanted) return;
    throw ProgramError("the call", "it has " + std::to_string(given) + " " + what,
                       "give " + std::to_string(wanted));
  };
  require_count(inputs.size(), program.inputs.size(), "tensors");
  require_count(integers.size(), static_cast<std::size_t>(program.given_integers), "integers");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto wanted = program.values[static_cast<std::size_t>(program.inputs[i])].dtype;
    if (inputs[i].dtype == wanted) continue;
    throw ProgramError("the call",
                       "tensor " + std::to_string(i) + " is " + std::string(name_of(inputs[i].dtype)),
                       "give one of " + std::string(name_of(wanted)));
  }
}

std::shared_ptr<const CompiledProgram> LoadedProgram::compiled(std::span<const InputTensor> inputs,
                                                               std::span<const std::int64_t> integers,
                                                               int threads) {
  check(inputs, integers);
  thread_local ProgramCache::Key key;
  write_key(inputs, integers, threads, key);
  const auto build = [&] {
    return std::make_shared<const CompiledProgram>(legal_, views_of(inputs), integers, threads, weights_);
  };
  return cache_.get(key, std::cref(build));
}

std::string profile_json(std::span<const StepTime> times) {
  auto json = nlohmann::json::array();
  for (const auto& time : times) {
    json.push_back({{"operation", time.operation},
                    {"kind", time.kind},
                    {"name", time.name},
                    {"implementation", time.implementation},
                    {"shape", time.shape},
                    {"microseconds", time.microseconds}});
  }
  return json.dump();
}

}  // namespace tsq::runtime
