#include "runtime/loaded_program.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/available_memory.h"
#include "runtime/primitives/exact_sums.h"
#include "runtime/primitives/legalize.h"
#include "runtime/program/checked.h"
#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/validate.h"
#include "runtime/sentences.h"

namespace tsq::runtime {
namespace {

/// Shapes that come in turns; more are compiled again each time.
constexpr std::size_t kCompiledPrograms = 16;

/// The count of threads, and the ranks, sizes and strides of the inputs, one after the other.
void write_key(std::span<const InputTensor> inputs, int threads, ProgramCache::Key& key) {
  key.clear();
  key.push_back(threads);
  for (const auto& input : inputs) {
    key.push_back(static_cast<std::int64_t>(input.sizes.size()));
    key.insert(key.end(), input.sizes.begin(), input.sizes.end());
    key.insert(key.end(), input.strides.begin(), input.strides.end());
  }
}

std::vector<View> views_of(std::span<const InputTensor> inputs) {
  std::vector<View> views;
  for (const auto& input : inputs) {
    View& view = views.emplace_back();
    view.dtype = input.dtype;
    view.sizes.assign(input.sizes.begin(), input.sizes.end());
    view.strides.assign(input.strides.begin(), input.strides.end());
    // Those of dimensions of one element say nothing, and may be any numbers.
    for (std::size_t d = 0; d < view.sizes.size(); ++d) {
      if (view.sizes[d] <= 1) view.strides[d] = std::min(view.strides[d], kMostElements);
    }
  }
  return views;
}

bool slices_alone_read(const Program& program, int value) {
  return std::ranges::find(program.outputs, value) == program.outputs.end() &&
         std::ranges::all_of(program.operations, [value](const Operation& operation) {
           return operation.kind == Kind::Slice || !reads(operation, value);
         });
}

/// The layers that a program computes, as people know them.
std::string layers_of(const Program& program) {
  std::vector<std::string> names;
  for (const auto& operation : program.operations) {
    if (!operation.name.empty()) names.push_back(operation.name);
  }
  if (names.empty()) return "a fused program";
  if (names.front() == names.back()) return "the fused program of '" + names.front() + "'";
  return "the fused program from '" + names.front() + "' to '" + names.back() + "'";
}

/// Some of the numbers that differ from key to key at one place.
std::string numbers_at(std::span<const ProgramCache::Key> keys, std::size_t place) {
  constexpr std::size_t kShown = 3;
  std::vector<std::int64_t> numbers;
  for (const auto& key : keys) {
    if (std::ranges::find(numbers, key[place]) == numbers.end()) numbers.push_back(key[place]);
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, numbers.size()); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  return numbers.size() > kShown ? text + ", ..." : text;
}

/// What differs between keys: a size, where they are of tensors of one rank, or the integers, which keys do
/// not hold.
std::string what_differs(std::span<const ProgramCache::Key> keys, std::size_t tensors) {
  const auto differs = [&](std::size_t place) {
    return std::ranges::any_of(keys, [&](const auto& key) { return key[place] != keys.front()[place]; });
  };
  if (std::ranges::any_of(keys, [&](const auto& key) { return key.size() != keys.front().size(); }))
    return "the ranks of its tensors change";
  if (differs(0)) return "the count of threads changes (" + numbers_at(keys, 0) + ")";
  std::size_t place = 1;
  for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
    const auto rank = static_cast<std::size_t>(keys.front()[place++]);
    for (std::size_t d = 0; d < 2 * rank; ++d, ++place) {
      if (!differs(place)) continue;
      const std::string what = d < rank ? "the size of dimension " : "the stride of dimension ";
      return what + std::to_string(d % rank) + " of its tensor " + std::to_string(tensor) + " changes (" +
             numbers_at(keys, place) + ")";
    }
  }
  return "the integers from which it computes shapes change";
}

}  // namespace

LoadedProgram::LoadedProgram(Model model, Tell tell)
    : model_(std::move(model)), cache_(kCompiledPrograms), tell_(std::move(tell)) {
  validate(model_);
  legal_ = in_sentences("the program", [&] { return legalized(model_, has_exact_int8_sums()); });
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
  for (const int input : model_.program.inputs)
    is_only_sliced_.push_back(slices_alone_read(model_.program, input));
}

void LoadedProgram::require_counts(std::size_t tensors, std::size_t integers) const {
  const auto require_count = [](std::size_t given, std::size_t wanted, const char* what) {
    if (given == wanted) return;
    throw ProgramError("the call", "it has " + std::to_string(given) + " " + what,
                       "give " + std::to_string(wanted));
  };
  require_count(tensors, model_.program.inputs.size(), "tensors");
  require_count(integers, static_cast<std::size_t>(model_.program.given_integers), "integers");
}

void LoadedProgram::check(std::span<const InputTensor> inputs, std::span<const std::int64_t> integers) const {
  const auto& program = model_.program;
  require_counts(inputs.size(), integers.size());
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
  write_key(inputs, threads, key);
  bool is_new = false;
  const auto build = [&] {
    is_new = true;
    return built(inputs, integers, threads);
  };
  const auto fits = [&](const ProgramCache::Built& program) { return program->fits(integers); };
  auto program = cache_.get(key, std::cref(fits), std::cref(build));
  if (is_new && tell_) tell_if_useless();
  return program;
}

/// Where it needs too much, what the other compiled programs keep for later calls is freed first.
ProgramCache::Built LoadedProgram::built(std::span<const InputTensor> inputs,
                                         std::span<const std::int64_t> integers, int threads) {
  const auto views = views_of(inputs);
  const auto build = [&] {
    return std::make_shared<const CompiledProgram>(legal_, views, integers, threads, weights_,
                                                   memory_limit());
  };
  try {
    return in_sentences("the call", build);
  } catch (const MemoryError&) {
    if (cache_.free_idle_arenas() == 0) throw;
  }
  return in_sentences("the call", build);
}

void LoadedProgram::tell_if_useless() {
  const auto keys = cache_.keys_if_useless();
  if (keys.empty()) return;
  tell_(layers_of(model_.program) + " is compiled anew for nearly every call, since " +
        what_differs(keys, model_.program.inputs.size()) + ": " + std::to_string(kCompiledPrograms) +
        " compiled programs are kept, so that calls are fast where no more come in turns; pad what differs "
        "to a few sizes");
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
