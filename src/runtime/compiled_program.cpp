#include "runtime/compiled_program.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>

#include "runtime/kernels/parallel.h"
#include "runtime/primitives/builders.h"
#include "runtime/program/checked.h"
#include "runtime/program/error.h"
#include "runtime/program/fuse_attention.h"
#include "runtime/program/fuse_operations.h"
#include "runtime/program/known_values.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/resolve.h"
#include "runtime/program/split_products.h"
#include "runtime/sentences.h"

namespace tsq::runtime {
namespace {

bool build_operation(Compilation& compilation) {
  for (const auto& row : builder_table()) {
    if (row.kind == compilation.operation().kind && row.build(compilation)) return true;
  }
  return false;
}

/// Builds the current operation. Errors of oneDNN name it as it stands in `program`.
void build(Compilation& compilation, const Program& program, std::size_t index) {
  const auto where = [&] { return name_of_operation(program, index); };
  try {
    if (build_operation(compilation)) return;
  } catch (const dnnl::error& error) {
    throw ProgramError(where(), std::string("oneDNN refuses it (") + error.what() + ")",
                       "leave this operation to LibTorch");
  }
  throw ProgramError(where(), "no kernel takes its shapes", "leave this operation to LibTorch");
}

/// What a call returns has to be allocated: the operation that is too much is named.
void require_memory_of_outputs(const ResolvedModel& resolved, std::int64_t limit) {
  const Program& program = resolved.model.program;
  std::int64_t needed = 0;
  for (const int output : program.outputs) {
    const auto value = static_cast<std::size_t>(output);
    needed += elements_of(resolved.shapes[value]) * bytes_of(program.values[value].dtype);
    if (needed <= limit) continue;
    const auto writer = std::ranges::find(program.operations, output, &Operation::output);
    const bool is_written = writer != program.operations.end();
    throw MemoryError(
        is_written ? name_of_operation(program, static_cast<std::size_t>(writer - program.operations.begin()))
                   : "the call",
        needed, limit);
  }
}

std::vector<Shape> shapes_of(std::span<const View> views) {
  std::vector<Shape> shapes;
  for (const auto& view : views) shapes.push_back(view.sizes);
  return shapes;
}

/// Calls `work` for shares of the parts, on as many threads as run parts at once. Nothing may be thrown out
/// of a region of OpenMP: what the first thread that fails throws is thrown after it.
template <typename Work>
void run_at_once(const BatchParts& parts, const Work& work) {
  std::exception_ptr failure;
  std::mutex mutex;
  parallel(parts.count, parts.at_once, [&](std::int64_t begin, std::int64_t end) {
    try {
      work(begin, end);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

/// The arena of one running call, and arguments that point into it.
class CompiledProgram::Execution {
 public:
  explicit Execution(const CompiledProgram& program)
      : program_(program),
        arena_(aligned_memory(static_cast<std::size_t>(program.arena_.bytes))),
        stream_(cpu_engine()) {
    arguments_.resize(program.steps_.size());
    pointers_.resize(program.steps_.size());
    for (std::size_t s = 0; s < program.steps_.size(); ++s) add_step(s);
  }

  void bind(const Given& given, std::int64_t part) {
    for (const auto& border : borders_) {
      auto* pointer = base_of(border, given, part);
      for (const auto& move : border.moves) pointer += given.begins[move.slice] * move.stride;
      if (border.memory) {
        dnnl_memory_set_data_handle(border.memory.get(), pointer);
      } else {
        pointers_[border.step][border.operand] = pointer;
      }
    }
  }

  void run(std::size_t s) {
    const auto& step = program_.steps_[s];
    if (step.kernel) {
      step.kernel(pointers_[s].data());
      return;
    }
    // oneDNN's C++ interface would make a map of the arguments at every call.
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(step.primitive.get(), stream_.get(), static_cast<int>(arguments_[s].size()),
                               arguments_[s].data()),
        "could not execute a primitive");
  }

 private:
  /// A pointer that changes with each call.
  struct Border {
    std::size_t step;
    std::size_t operand;
    Place place;
    int index;
    std::int64_t offset;
    dnnl::memory memory;
    std::byte* fixed;  ///< where it lies without its moves, but for inputs and outputs
    std::span<const Move> moves;
  };

  [[nodiscard]] std::byte* base_of(const Border& border, const Given& given, std::int64_t part) const {
    if (border.fixed != nullptr) return border.fixed;
    const auto index = static_cast<std::size_t>(border.index);
    const bool returned = border.place == Place::Output;
    // Neither oneDNN nor our kernels write to what a step reads.
    auto* base =
        static_cast<std::byte*>(returned ? given.outputs[index] : const_cast<void*>(given.inputs[index]));
    const auto step = (returned ? program_.output_steps_ : program_.input_steps_)[index];
    return base + border.offset + part * step;
  }

  std::byte* pointer_to(const Operand& operand) const {
    const auto index = static_cast<std::size_t>(operand.buffer);
    const auto& buffer = program_.buffers_[index];
    if (buffer.place == Place::Arena) {
      return static_cast<std::byte*>(arena_.get()) + program_.arena_.offsets[index] + operand.offset;
    }
    if (buffer.place != Place::Constant) return nullptr;
    return static_cast<std::byte*>(const_cast<void*>(buffer.constant.get())) + operand.offset;
  }

  void add_step(std::size_t s) {
    const auto& step = program_.steps_[s];
    for (std::size_t o = 0; o < step.operands.size(); ++o) {
      const auto& operand = step.operands[o];
      const auto& buffer = program_.buffers_[static_cast<std::size_t>(operand.buffer)];
      auto* pointer = pointer_to(operand);
      dnnl::memory memory;
      if (step.kernel) {
        pointers_[s].push_back(pointer);
      } else {
        memory = dnnl::memory(operand.desc, cpu_engine(), pointer);
        arguments_[s].push_back({operand.argument, memory.get()});
        memories_.push_back(memory);
      }
      const bool is_of_call = buffer.place == Place::Input || buffer.place == Place::Output;
      if (is_of_call || !operand.moves.empty()) {
        borders_.push_back(
            {s, o, buffer.place, buffer.index, operand.offset, memory, pointer, operand.moves});
      }
    }
  }

  const CompiledProgram& program_;
  std::shared_ptr<void> arena_;
  dnnl::stream stream_;
  std::vector<dnnl::memory> memories_{};
  std::vector<std::vector<dnnl_exec_arg_t>> arguments_{};
  std::vector<std::vector<std::byte*>> pointers_{};
  std::vector<Border> borders_{};
};

CompiledProgram::CompiledProgram(const Model& model, std::span<const View> inputs,
                                 std::span<const std::int64_t> integers, int threads, PackedWeights& weights,
                                 std::int64_t memory_limit, const DivideBatch& divide) {
  auto split = resolve(model, shapes_of(inputs), integers);
  moving_ = MovingSlices(model.program, split, integers);
  settle_known_values(split);
  split_products(split);
  auto whole = with_fused_operations(with_fused_attention(std::move(split)));
  for (const int output : model.program.outputs) {
    output_shapes_.push_back(whole.shapes[static_cast<std::size_t>(output)]);
    output_dtypes_.push_back(model.program.values[static_cast<std::size_t>(output)].dtype);
  }
  require_memory_of_outputs(whole, memory_limit);
  const auto batch = batch_rows(whole);
  if (batch) parts_ = divide(whole, *batch, threads);
  const auto part_inputs = inputs_of_part(inputs, whole, batch);
  for (std::size_t i = 0; i < output_shapes_.size(); ++i) {
    output_steps_.push_back(elements_of(output_shapes_[i]) * bytes_of(output_dtypes_[i]) / parts_.count);
  }
  const auto part =
      parts_.count > 1 ? with_rows(std::move(whole), *batch, batch->rows / parts_.count) : std::move(whole);
  const int threads_of_part = parts_.at_once > 1 ? 1 : threads;
  const ThreadCount count(threads_of_part);
  const Program& program = part.model.program;
  Compilation compilation(part.model, part.shapes, part_inputs, threads_of_part, weights, memory_limit);
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    compilation.begin(i);
    if (!compilation.is_written(program.operations[i].output)) build(compilation, program, i);
    labels_.push_back({program.operations[i].kind, program.operations[i].name});
  }
  compilation.finish();
  buffers_ = std::move(compilation.buffers);
  steps_ = std::move(compilation.steps);
  arena_ = plan_arena(buffers_, steps_);
  require_memory(compilation.held_bytes(), memory_limit);
}

void CompiledProgram::require_memory(std::int64_t tables, std::int64_t limit) const {
  Checked needed = checked_sum(tables, checked_product(arena_.bytes, parts_.at_once));
  for (std::size_t i = 0; i < output_shapes_.size(); ++i) {
    const auto bytes = elements_of(output_shapes_[i]) * bytes_of(output_dtypes_[i]);
    needed = checked_sum(needed, bytes);
  }
  const auto known = needed.value_or(std::numeric_limits<std::int64_t>::max());
  if (known > limit) throw MemoryError("the call", known, limit);
}

std::int64_t CompiledProgram::free_idle_arenas() const {
  const std::scoped_lock lock(mutex_);
  const auto bytes = static_cast<std::int64_t>(idle_.size()) * arena_.bytes;
  idle_.clear();
  return bytes;
}

CompiledProgram::~CompiledProgram() = default;

std::vector<View> CompiledProgram::inputs_of_part(std::span<const View> inputs, const ResolvedModel& whole,
                                                  const std::optional<BatchRows>& batch) {
  std::vector<View> of_part(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto value = static_cast<std::size_t>(whole.model.program.inputs[i]);
    const bool divided = parts_.count > 1 && batch->batched[value];
    if (divided) of_part[i].sizes[0] /= parts_.count;
    input_steps_.push_back(divided ? of_part[i].sizes[0] * inputs[i].strides[0] * bytes_of(inputs[i].dtype)
                                   : 0);
  }
  return of_part;
}

std::unique_ptr<CompiledProgram::Execution> CompiledProgram::take() const {
  {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      auto execution = std::move(idle_.back());
      idle_.pop_back();
      return execution;
    }
  }
  return std::make_unique<Execution>(*this);
}

void CompiledProgram::give_back(std::unique_ptr<Execution> execution) const {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(std::move(execution));
}

CompiledProgram::Given CompiledProgram::given(std::span<const void* const> inputs,
                                              std::span<void* const> outputs,
                                              std::span<const std::int64_t> integers) const {
  if (!moving_.any()) return {inputs, outputs};
  auto begins = moving_.begins(integers);
  if (!begins) throw ProgramError("the call", "its integers make other shapes", "compile a program for them");
  return {inputs, outputs, std::move(*begins)};
}

void CompiledProgram::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                          std::span<const std::int64_t> integers) const {
  const RunningProgram running;
  const auto all = given(inputs, outputs, integers);
  in_sentences("the call", [&] {
    if (parts_.at_once == 1) return run_parts(all, 0, parts_.count);
    run_at_once(parts_, [&](std::int64_t begin, std::int64_t end) { run_parts(all, begin, end); });
  });
}

void CompiledProgram::run_parts(const Given& given, std::int64_t begin, std::int64_t end) const {
  auto execution = take();
  for (auto part = begin; part < end; ++part) {
    execution->bind(given, part);
    for (std::size_t s = 0; s < steps_.size(); ++s) execution->run(s);
  }
  give_back(std::move(execution));
}

std::vector<StepTime> CompiledProgram::profile(std::span<const void* const> inputs,
                                               std::span<void* const> outputs,
                                               std::span<const std::int64_t> integers) const {
  using Clock = std::chrono::steady_clock;
  std::vector<StepTime> times;
  for (const auto& step : steps_) {
    const auto& label = labels_[step.operation];
    times.push_back({.operation = step.operation,
                     .kind = name_of(label.kind),
                     .name = label.name,
                     .implementation = step.implementation,
                     .shape = step.shape});
  }
  const auto all = given(inputs, outputs, integers);
  auto execution = take();
  for (std::int64_t part = 0; part < parts_.count; ++part) {
    execution->bind(all, part);
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const auto begin = Clock::now();
      execution->run(s);
      const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
      times[s].microseconds += time.count();
    }
  }
  give_back(std::move(execution));
  return times;
}

std::int64_t CompiledProgram::buffer_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (arena_.offsets[b] >= 0) bytes += buffers_[b].bytes;
  }
  return bytes;
}

}  // namespace tsq::runtime
