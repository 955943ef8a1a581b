#include "runtime/kernels/recurrent.h"

#include <algorithm>
#include <cmath>

#include "runtime/primitives/builders.h"

namespace tsq::runtime {
namespace {

/// One of the two matrices of a layer, and what belongs to it.
struct Weights {
  int weight;
  std::optional<int> scales;
  std::optional<int> bias;
};

Weights of_input(const Operation& operation) {
  return {*operation.weight, operation.weight_scales, operation.bias};
}
Weights of_states(const Operation& operation) {
  return {*operation.recurrent_weight, operation.recurrent_scales, operation.recurrent_bias};
}

/// Sums of bytes of 8 bits fit into 32.
constexpr std::int64_t kLargestDepth = std::int64_t{1} << 15;

/// The form of products with states, or with an input of any values.
RecurrentForm form_of(const Compilation& compilation, const Weights& weights, bool of_states) {
  const auto& weight = compilation.constant(weights.weight);
  if (!recurrent_kernels().has_bytes || weight.shape[1] > kLargestDepth) return RecurrentForm::Floats;
  if (weight.dtype == Dtype::S8) return of_states ? RecurrentForm::BytesByBytes : RecurrentForm::WordsByBytes;
  // Of the input's values the small ones matter as well, and 13 bits would lose them.
  return of_states ? RecurrentForm::WordsByWords : RecurrentForm::Floats;
}

/// Scales of each row's words, none where weights are no words: as large as they may be while no sum of
/// products with the largest words of states leaves 32 bits.
std::vector<float> scales_of_words(const Constant& weight, RecurrentForm form) {
  std::vector<float> scales;
  if (form != RecurrentForm::WordsByWords) return scales;
  for (std::int64_t row = 0; row < weight.shape[0]; ++row) {
    const std::span numbers(weight.floats() + row * weight.shape[1],
                            static_cast<std::size_t>(weight.shape[1]));
    float largest = 0;
    double sum = 0;
    for (const float number : numbers) {
      largest = std::max(largest, std::abs(number));
      sum += std::abs(number);
    }
    // Rounding adds at most 1/2 to each word.
    const double room = 0x1p31 / kLargestStateWord - static_cast<double>(numbers.size());
    scales.push_back(std::max(largest / kLargestRecurrentWord, static_cast<float>(sum / room)));
  }
  return scales;
}

/// Of one of these sizes; which type of 16 bits stands for words does not matter.
dnnl::memory::data_type numbers_of(RecurrentForm form) {
  using enum dnnl::memory::data_type;
  return form == RecurrentForm::Floats ? f32 : form == RecurrentForm::WordsByWords ? f16 : s8;
}

View packed(Compilation& compilation, const Weights& weights, std::int64_t gates, RecurrentForm form) {
  const auto& weight = compilation.constant(weights.weight);
  RecurrentMatrix matrix{.gates = gates,
                         .width = weight.shape[0] / gates,
                         .depth = weight.shape[1],
                         .codes = weight.dtype == Dtype::S8 ? weight.int8s() : nullptr,
                         .floats = weight.dtype == Dtype::F32 ? weight.floats() : nullptr};
  return compilation.packed_view(weight, numbers_of(form), recurrent_kernels().packed_floats(matrix, form),
                                 [&](float* memory) {
                                   const auto scales = scales_of_words(weight, form);
                                   matrix.scales = scales.data();
                                   recurrent_kernels().pack(matrix, form, memory);
                                 });
}

/// Scales and addends of the columns, as kernels want them.
View scales_of(Compilation& compilation, const Weights& weights, std::int64_t gates, RecurrentForm form) {
  const auto width = compilation.constant(weights.weight).shape[0] / gates;
  const auto columns = recurrent_columns(gates, width);
  std::vector<float> numbers(static_cast<std::size_t>(2 * columns), 0);
  const auto place_of = [&](std::int64_t row) {
    return static_cast<std::size_t>(row / width * (columns / gates) + row % width);
  };
  const auto write = [&](const std::optional<int>& index, float* to, float standard) {
    const bool has_one = index && elements_of(compilation.constant(*index).shape) == 1;
    for (std::int64_t row = 0; row < gates * width; ++row)
      to[place_of(row)] = index ? compilation.constant(*index).floats()[has_one ? 0 : row] : standard;
  };
  write(weights.scales, numbers.data(), 1);
  write(weights.bias, numbers.data() + columns, 0);
  const auto scales = scales_of_words(compilation.constant(weights.weight), form);
  for (std::size_t row = 0; row < scales.size(); ++row)
    numbers[place_of(static_cast<std::int64_t>(row))] = scales[row];
  return compilation.numbers_view(numbers);
}

/// Three dimensions: of two there is one sample.
View with_samples(View view) {
  if (view.sizes.size() == 3) return view;
  view.sizes.insert(view.sizes.begin() + 1, 1);
  view.strides.insert(view.strides.begin() + 1, 0);
  return view;
}

View states_of(Compilation& compilation, std::size_t input) {
  return with_samples(compilation.as_float(compilation.view(compilation.operation().inputs[input])));
}

RecurrentTask task_of(const Operation& operation, const View& input, const View& output, int threads) {
  RecurrentTask task{.lstm = operation.kind == Kind::Lstm,
                     .backward = operation.backward,
                     .steps = input.sizes[0],
                     .batch = input.sizes[1],
                     .depth = input.sizes[2],
                     .width = output.sizes[2],
                     .to = rounding_of(output)};
  task.rows = std::clamp<std::int64_t>((task.batch + threads - 1) / threads, 1, kRecurrentRows);
  std::ranges::copy(input.strides, task.input.begin());
  std::ranges::copy(output.strides, task.output.begin());
  return task;
}

/// Memory in which each part of a kernel's work has a place of its own: OpenMP may give several to one
/// thread.
struct Scratch {
  std::int64_t parts;
  std::int64_t floats;

  [[nodiscard]] View view(Compilation& compilation) const {
    return compilation.fresh(Dtype::F32, {parts * floats}, {1});
  }
};

Scratch scratch_of(const RecurrentTask& task, std::int64_t units, int threads) {
  return {std::min<std::int64_t>(threads, units), (recurrent_scratch(task) + 15) / 16 * 16};
}

using RecurrentWork = void (*)(const RecurrentTask& task, const RecurrentPointers& pointers,
                               std::byte* const* operands, std::int64_t begin, std::int64_t end);

/// A kernel whose first operand is written; the next are its scratch, weights and scales.
void add_recurrent(Compilation& compilation, const char* name, const RecurrentTask& task,
                   std::span<const View> views, std::int64_t units, RecurrentWork work) {
  const Scratch scratch = scratch_of(task, units, compilation.threads());
  compilation.add_kernel(
      name, views, scratch.parts, [=](std::byte* const* operands, std::int64_t begin, std::int64_t end) {
        for (auto part = begin; part < end; ++part) {
          const RecurrentPointers pointers{
              .packed = reinterpret_cast<const float*>(operands[2]),
              .scales = reinterpret_cast<const float*>(operands[3]),
              .scratch = reinterpret_cast<float*>(operands[1]) + part * scratch.floats};
          work(task, pointers, operands, units * part / scratch.parts, units * (part + 1) / scratch.parts);
        }
      });
}

View add_projection(Compilation& compilation, RecurrentTask task, const View& input) {
  const auto& operation = compilation.operation();
  const Weights weights = of_input(operation);
  task.form = form_of(compilation, weights, operation.reads_states);
  const View gates = compilation.fresh(
      Dtype::F32, {task.steps, task.batch, recurrent_columns(task.gates(), task.width)},
      row_major_strides({task.steps, task.batch, recurrent_columns(task.gates(), task.width)}));
  const View views[] = {gates, scratch_of(task, task.input_units(), compilation.threads()).view(compilation),
                        packed(compilation, weights, task.gates(), task.form),
                        scales_of(compilation, weights, task.gates(), task.form), input};
  add_recurrent(compilation, "gates", task, views, task.input_units(),
                [](const RecurrentTask& each, const RecurrentPointers& given, std::byte* const* operands,
                   std::int64_t begin, std::int64_t end) {
                  RecurrentPointers pointers = given;
                  pointers.gates = reinterpret_cast<float*>(operands[0]);
                  recurrent_kernels().project(each, pointers, reinterpret_cast<const float*>(operands[4]),
                                              begin, end);
                });
  return gates;
}

void add_steps(Compilation& compilation, RecurrentTask task, const View& output, const View& gates) {
  const auto& operation = compilation.operation();
  const Weights weights = of_states(operation);
  task.form = form_of(compilation, weights, true);
  std::vector<View> views{output, scratch_of(task, task.units(), compilation.threads()).view(compilation),
                          packed(compilation, weights, task.gates(), task.form),
                          scales_of(compilation, weights, task.gates(), task.form)};
  for (std::size_t i = 1; i < operation.inputs.size(); ++i) {
    views.push_back(states_of(compilation, i));
    auto& strides = i == 1 ? task.hidden : task.cell;
    strides = {views.back().strides[1], views.back().strides[2]};
  }
  task.has_hidden = operation.inputs.size() > 1;
  task.has_cell = operation.inputs.size() > 2;
  views.push_back(gates);
  add_recurrent(compilation, task.lstm ? "lstm" : "gru", task, views, task.units(),
                [](const RecurrentTask& each, const RecurrentPointers& given, std::byte* const* operands,
                   std::int64_t begin, std::int64_t end) {
                  const auto floats = [&](int i) { return reinterpret_cast<float*>(operands[i]); };
                  RecurrentPointers pointers = given;
                  pointers.out = operands[0];
                  if (each.has_hidden) pointers.hidden = floats(4);
                  if (each.has_cell) pointers.cell = floats(5);
                  pointers.gates =
                      floats(4 + static_cast<int>(each.has_hidden) + static_cast<int>(each.has_cell));
                  recurrent_kernels().run(each, pointers, begin, end);
                });
}

}  // namespace

bool build_recurrent(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View output = compilation.any_destination(operation.output);
  const View input = states_of(compilation, 0);
  const RecurrentTask task = task_of(operation, input, with_samples(output), compilation.threads());
  const View gates = add_projection(compilation, task, input);
  add_steps(compilation, task, output, gates);
  compilation.deliver(operation.output, output);
  return true;
}

}  // namespace tsq::runtime
