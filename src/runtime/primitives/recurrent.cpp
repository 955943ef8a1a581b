#include "runtime/kernels/recurrent.h"

#include <algorithm>
#include <cmath>

#include "runtime/primitives/builders.h"

namespace tsq::runtime {
namespace {

/// One of the two matrices of a layer, and what belongs to it.
struct Weights {
  int weight;
  std::optional<int> scales{};
  std::vector<int> biases{};  ///< which are added
};

/// An LSTM adds both of its biases to what the input adds.
Weights of_input(const Operation& operation) {
  Weights weights{.weight = *operation.weight, .scales = operation.weight_scales};
  if (operation.bias) weights.biases.push_back(*operation.bias);
  if (operation.kind == Kind::Lstm && operation.recurrent_bias)
    weights.biases.push_back(*operation.recurrent_bias);
  return weights;
}
Weights of_states(const Operation& operation) {
  Weights weights{.weight = *operation.recurrent_weight, .scales = operation.recurrent_scales};
  if (operation.kind != Kind::Lstm && operation.recurrent_bias)
    weights.biases.push_back(*operation.recurrent_bias);
  return weights;
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
  const auto add = [&](std::optional<int> index, float* to, float standard) {
    const bool has_one = index && elements_of(compilation.constant(*index).shape) == 1;
    for (std::int64_t row = 0; row < gates * width; ++row)
      to[place_of(row)] += index ? compilation.constant(*index).floats()[has_one ? 0 : row] : standard;
  };
  add(weights.scales, numbers.data(), 1);
  for (const int bias : weights.biases) add(bias, numbers.data() + columns, 0);
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

/// The operands of a kernel, in the order in which it is handed them.
struct Operands {
  std::vector<View> views{};

  /// The place of an operand that is added.
  std::size_t add(const View& view) {
    views.push_back(view);
    return views.size() - 1;
  }
};

/// Where the operands of a layer stand; those that it lacks have none.
struct Places {
  std::size_t written = 0;
  std::size_t scratch = 0;
  std::optional<std::size_t> gates{}, hidden{}, cell{}, packed{}, scales{}, input{}, input_packed{},
      input_scales{}, shared{};

  [[nodiscard]] RecurrentPointers pointers(std::byte* const* operands, float* scratch_of_part) const {
    const auto floats = [&](const std::optional<std::size_t>& place) {
      return place ? reinterpret_cast<float*>(operands[*place]) : nullptr;
    };
    return {.out = operands[written],
            .gates = floats(gates),
            .hidden = floats(hidden),
            .cell = floats(cell),
            .packed = floats(packed),
            .scales = floats(scales),
            .shared = floats(shared),
            .input = floats(input),
            .input_packed = floats(input_packed),
            .input_scales = floats(input_scales),
            .scratch = scratch_of_part};
  }
};

void add_input(Compilation& compilation, const RecurrentTask& task, const View& input, Operands& operands,
               Places& places) {
  const Weights weights = of_input(compilation.operation());
  places.input = operands.add(input);
  places.input_packed = operands.add(packed(compilation, weights, task.gates(), task.input_form));
  places.input_scales = operands.add(scales_of(compilation, weights, task.gates(), task.input_form));
}

using RecurrentWork = void (*)(const RecurrentTask& task, const RecurrentPointers& pointers,
                               std::int64_t begin, std::int64_t end);

void add_recurrent(Compilation& compilation, const char* name, const RecurrentTask& task,
                   const Operands& operands, const Places& places, std::int64_t units, RecurrentWork work) {
  const bool meets = places.shared.has_value();
  const Scratch scratch = scratch_of(task, units, compilation.threads());
  const auto part = [=](std::byte* const* memory, std::int64_t begin, std::int64_t end) {
    float* own = reinterpret_cast<float*>(memory[places.scratch]) + begin * scratch.floats;
    work(task, places.pointers(memory, own), units * begin / scratch.parts, units * end / scratch.parts);
  };
  if (meets) {
    compilation.add_meeting_kernel(name, operands.views, scratch.parts, part);
  } else {
    compilation.add_kernel(name, operands.views, scratch.parts, part);
  }
}

View add_projection(Compilation& compilation, const RecurrentTask& task, const View& input) {
  const std::vector<std::int64_t> shape{task.steps, task.batch, recurrent_columns(task.gates(), task.width)};
  const View gates = compilation.fresh(Dtype::F32, shape, row_major_strides(shape));
  Operands operands;
  Places places{.written = operands.add(gates)};
  places.gates = places.written;
  places.scratch =
      operands.add(scratch_of(task, task.input_units(), compilation.threads()).view(compilation));
  add_input(compilation, task, input, operands, places);
  add_recurrent(compilation, "gates", task, operands, places, task.input_units(),
                [](const RecurrentTask& each, const RecurrentPointers& pointers, std::int64_t begin,
                   std::int64_t end) { recurrent_kernels().project(each, pointers, begin, end); });
  return gates;
}

/// Threads that share the columns of each step, where samples are fewer than threads. A step reads all
/// weights of states, 100 kB in a microsecond out of a second-level cache, and meeting takes half of one:
/// what is saved has to be twice as much.
std::int64_t shares_of(const RecurrentTask& task, const View& packed_weights, int threads) {
  constexpr double kBytesInAMicrosecond = 1e5;
  constexpr double kMicrosecondsToMeet = 0.5;
  const std::int64_t panels = recurrent_columns(1, task.width) / recurrent_columns(1, 1);
  const std::int64_t shares = std::min<std::int64_t>(threads, panels);
  if (task.batch >= threads || task.batch > kRecurrentRows || shares < 2) return 1;
  const auto bytes = static_cast<double>(elements_of(packed_weights.sizes)) * sizeof(float);
  const double saved = bytes / kBytesInAMicrosecond * (1 - 1 / static_cast<double>(shares));
  return saved > 2 * kMicrosecondsToMeet ? shares : 1;
}

void add_steps(Compilation& compilation, RecurrentTask task, const View& output, const View& input) {
  const auto& operation = compilation.operation();
  std::optional<View> gates;
  if (task.steps_at_once == 0) gates = add_projection(compilation, task, input);
  const View packed_weights = packed(compilation, of_states(operation), task.gates(), task.form);
  task.shares = shares_of(task, packed_weights, compilation.threads());
  Operands operands;
  Places places{.written = operands.add(output)};
  places.scratch = operands.add(scratch_of(task, task.units(), compilation.threads()).view(compilation));
  places.packed = operands.add(packed_weights);
  places.scales = operands.add(scales_of(compilation, of_states(operation), task.gates(), task.form));
  for (std::size_t i = 1; i < operation.inputs.size(); ++i) {
    const View given = states_of(compilation, i);
    (i == 1 ? task.hidden : task.cell) = {given.strides[1], given.strides[2]};
    (i == 1 ? places.hidden : places.cell) = operands.add(given);
  }
  if (task.shares > 1) {
    const std::int64_t states = 2 * task.batch * recurrent_columns(1, task.width);
    places.shared = operands.add(compilation.fresh(Dtype::F32, {states}, {1}));
  }
  if (gates) {
    places.gates = operands.add(*gates);
  } else {
    add_input(compilation, task, input, operands, places);
  }
  add_recurrent(compilation, task.lstm ? "lstm" : "gru", task, operands, places, task.units(),
                [](const RecurrentTask& each, const RecurrentPointers& pointers, std::int64_t begin,
                   std::int64_t end) { recurrent_kernels().run(each, pointers, begin, end); });
}

/// What the input adds to the gates of so many steps stays in a quarter of a second-level cache of 1 MiB,
/// beside the weights. None where the samples are fewer than the threads, which share the steps then.
std::int64_t steps_at_once(const RecurrentTask& task, int threads) {
  constexpr std::int64_t kFloatsInCache = std::int64_t{1} << 16;
  if (task.units() < threads) return 0;
  const std::int64_t in_cache = kFloatsInCache / (task.rows * recurrent_columns(task.gates(), task.width));
  const std::int64_t of_whole_tiles = (kRecurrentRows + task.rows - 1) / task.rows;
  return std::clamp<std::int64_t>(in_cache, of_whole_tiles, std::max(task.steps, of_whole_tiles));
}

}  // namespace

bool build_recurrent(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View output = compilation.any_destination(operation.output);
  const View input = states_of(compilation, 0);
  RecurrentTask task = task_of(operation, input, with_samples(output), compilation.threads());
  task.form = form_of(compilation, of_states(operation), true);
  task.input_form = form_of(compilation, of_input(operation), operation.reads_states);
  task.steps_at_once = steps_at_once(task, compilation.threads());
  add_steps(compilation, task, output, input);
  compilation.deliver(operation.output, output);
  return true;
}

}  // namespace tsq::runtime
