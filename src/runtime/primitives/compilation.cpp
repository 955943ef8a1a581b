#include "runtime/primitives/compilation.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/parallel.h"
#include "runtime/primitives/layouts.h"
#include "runtime/program/channels_last.h"
#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

std::size_t at(int value) { return static_cast<std::size_t>(value); }

bool same_view(const View& a, const View& b) {
  return same_quantization(a, b) && a.buffer == b.buffer && a.offset == b.offset && a.moves == b.moves &&
         a.sizes == b.sizes && same_strides(a.sizes, a.strides, b.strides);
}

}  // namespace

Compilation::Compilation(const Model& model, std::vector<Shape> shapes, std::span<const View> inputs,
                         int threads, PackedWeights& weights, std::int64_t memory_limit)
    : model_(model),
      shapes_(std::move(shapes)),
      threads_(threads),
      weights_(weights),
      memory_limit_(memory_limit),
      views_(model.program.values.size()),
      reserved_(model.program.values.size()),
      last_use_(last_uses(model.program)),
      use_count_(use_counts(model.program)),
      channels_last_(channels_last_values(model.program, shapes_)),
      signed_storage_(signed_values(model.program)) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto value = at(program().inputs[i]);
    View input = inputs[i];
    input.dtype = program().values[value].dtype;
    input.scale = program().values[value].scale;
    input.zero_point = program().values[value].zero_point;
    input.buffer = add_buffer({Place::Input, 0, static_cast<int>(i), nullptr});
    views_[value] = input;
  }
  reserve_outputs();
  reserve_concatenations();
}

void Compilation::require_memory(std::int64_t bytes) const {
  if (bytes > memory_limit_) throw MemoryError(name_of_operation(program(), current_), bytes, memory_limit_);
}

void Compilation::hold(std::int64_t count, std::size_t size_of_one) {
  held_bytes_ += count * static_cast<std::int64_t>(size_of_one);
  require_memory(held_bytes_);
}

int Compilation::add_buffer(Buffer buffer) {
  require_memory(buffer.bytes);
  buffers.push_back(std::move(buffer));
  return static_cast<int>(buffers.size()) - 1;
}

View Compilation::stored_as(int value) const {
  const auto& declared = program().values[at(value)];
  View view{.dtype = declared.dtype, .scale = declared.scale, .zero_point = declared.zero_point};
  const bool signed_storage = signed_storage_[at(value)];
  if (is_int8(view.dtype) && signed_storage != (view.dtype == Dtype::S8)) {
    view.dtype = signed_storage ? Dtype::S8 : Dtype::U8;
    view.zero_point += signed_storage ? -128 : 128;
  }
  return view;
}

void Compilation::reserve_outputs() {
  for (std::size_t i = 0; i < program().outputs.size(); ++i) {
    const int value = program().outputs[i];
    const auto& sizes = shape(value);
    const auto& declared = program().values[at(value)];
    View view{.dtype = declared.dtype,
              .scale = declared.scale,
              .zero_point = declared.zero_point,
              .sizes = sizes,
              .strides = row_major_strides(sizes),
              .buffer = add_buffer({Place::Output, 0, static_cast<int>(i), nullptr})};
    if (!views_[at(value)] && !declared.constant && !reserved_[at(value)]) reserved_[at(value)] = view;
  }
}

/// A concatenation's inputs are written into it, or copied where a kernel leaves no gaps or others read them.
/// From the last concatenation to the first: one that is an input of another, or whose inputs stand there
/// side by side, lies inside of that.
void Compilation::reserve_concatenations() {
  for (std::size_t i = program().operations.size(); i-- > 0;) {
    const auto& operation = program().operations[i];
    begin(i);
    if (operation.kind == Kind::Concat && !is_left_to_reader(program(), operation)) reserve_inputs_of(i);
  }
}

void Compilation::reserve_inputs_of(std::size_t index) {
  const auto& concat = program().operations[index];
  auto& whole = reserved_[at(concat.output)];
  const View stored = stored_as(concat.output);
  if (!whole) whole = side_by_side(concat);
  if (!whole) whole = fresh(concat.output, strides_of(concat.output));
  if (!same_quantization(*whole, stored)) return;
  const auto axis = axis_of(concat, whole->sizes.size());
  std::int64_t position = 0;
  for (const int input : concat.inputs) {
    const View part = part_of(*whole, shape(input), axis, position);
    position += part.sizes[axis];
    const bool has_place = views_[at(input)] || reserved_[at(input)] || program().values[at(input)].constant;
    if (!has_place && same_quantization(stored_as(input), stored)) reserved_[at(input)] = part;
  }
}

std::optional<View> Compilation::side_by_side(const Operation& concat) const {
  std::optional<View> whole = reserved_[at(concat.inputs[0])];
  if (!whole || !same_quantization(*whole, stored_as(concat.output))) return std::nullopt;
  const auto axis = axis_of(concat, whole->sizes.size());
  std::int64_t offset = whole->offset;
  for (const int input : concat.inputs) {
    const auto& part = reserved_[at(input)];
    if (!part || part->buffer != whole->buffer || part->offset != offset || part->strides != whole->strides ||
        !same_quantization(*part, *whole)) {
      return std::nullopt;
    }
    offset += part->sizes[axis] * part->strides[axis];
  }
  whole->sizes = shape(concat.output);
  return whole;
}

View Compilation::view(int value) {
  auto& view = views_[at(value)];
  if (view) return *view;
  const auto& declared = program().values[at(value)];
  View read = constant_view(*declared.constant);
  read.scale = declared.scale;
  read.zero_point = declared.zero_point;
  view = read;
  return read;
}

View Compilation::constant_view(int index) {
  const auto& tensor = constant(index);
  return {.dtype = tensor.dtype,
          .sizes = tensor.shape,
          .strides = row_major_strides(tensor.shape),
          .buffer = add_buffer({Place::Constant, 0, 0, tensor.data})};
}

View Compilation::number_view(float number) {
  const auto memory = aligned_memory(sizeof number);
  *static_cast<float*>(memory.get()) = number;
  return {.dtype = Dtype::F32, .buffer = add_buffer({Place::Constant, 0, 0, memory})};
}

View Compilation::numbers_view(const std::vector<float>& numbers) {
  hold(static_cast<std::int64_t>(numbers.size()), sizeof(float));
  const auto memory = aligned_memory(numbers.size() * sizeof(float));
  std::memcpy(memory.get(), numbers.data(), numbers.size() * sizeof(float));
  const Shape sizes{static_cast<std::int64_t>(numbers.size())};
  return {.sizes = sizes, .strides = {1}, .buffer = add_buffer({Place::Constant, 0, 0, memory})};
}

View Compilation::packed_view(const Constant& plain, dnnl::memory::data_type numbers, std::int64_t floats,
                              const std::function<void(float* packed)>& pack) {
  const auto packed = weights_.get(plain.data, numbers, floats * bytes_of(Dtype::F32),
                                   [&](void* memory) { pack(static_cast<float*>(memory)); });
  return {.sizes = {floats}, .strides = {1}, .buffer = add_buffer({Place::Constant, 0, 0, packed})};
}

View Compilation::with_strides(const View& view, const Shape& strides) {
  if (same_strides(view.sizes, view.strides, strides)) {
    View same = view;
    same.strides = strides;
    return same;
  }
  for (const auto& [from, copy] : copies_) {
    if (same_view(from, view) && same_quantization(copy, view) &&
        same_strides(view.sizes, copy.strides, strides)) {
      return copy;
    }
  }
  View copy = fresh(view.dtype, view.sizes, strides, view.scale, view.zero_point);
  add_copy(view, copy);
  copies_.emplace_back(view, copy);
  return copy;
}

namespace {

Shape dense_strides(const View& view) {
  return has_channels_last(view) ? channels_last_strides(view.sizes) : row_major_strides(view.sizes);
}

/// The dtype in which `view` is wanted, with the zero point that goes with it.
View quantized_as(const View& view, Dtype dtype) {
  View wanted = view;
  wanted.dtype = dtype;
  if (dtype == Dtype::F32) {
    wanted.scale = 1;
    wanted.zero_point = 0;
  } else {
    wanted.zero_point += dtype == Dtype::U8 ? 128 : -128;
  }
  return wanted;
}

}  // namespace

View Compilation::as_unsigned(const View& view) {
  if (view.dtype != Dtype::S8) return view;
  const View wanted = quantized_as(view, Dtype::U8);
  for (const auto& [from, copy] : copies_) {
    if (same_view(from, view) && same_quantization(copy, wanted)) return copy;
  }
  View copy = fresh(Dtype::U8, view.sizes, dense_strides(view), wanted.scale, wanted.zero_point);
  add_copy(view, copy);
  copies_.emplace_back(view, copy);
  return copy;
}

View Compilation::as_signed(const View& view) {
  if (view.dtype != Dtype::U8) return view;
  const View wanted = quantized_as(view, Dtype::S8);
  View copy = fresh(Dtype::S8, view.sizes, row_major_strides(view.sizes), wanted.scale, wanted.zero_point);
  add_copy(view, copy);
  return copy;
}

View Compilation::as_float(const View& view) {
  if (view.dtype == Dtype::F32) return view;
  View copy = fresh(Dtype::F32, view.sizes, dense_strides(view));
  add_copy(view, copy);
  return copy;
}

Compilation::Mark Compilation::mark() const { return {buffers.size(), steps.size(), copies_, views_}; }

void Compilation::roll_back(Mark mark) {
  buffers.resize(mark.buffers);
  steps.resize(mark.steps);
  copies_ = std::move(mark.copies);
  views_ = std::move(mark.views);
}

void Compilation::forget_copies(int buffer) {
  std::erase_if(copies_, [&](const auto& pair) { return pair.first.buffer == buffer; });
}

Shape Compilation::strides_of(int value) const {
  const auto& sizes = shape(value);
  if (channels_last_[at(value)]) return channels_last_strides(sizes);
  const auto* reader = only_reader(program(), value);
  if (reader == nullptr || reader->kind != Kind::Permute) return row_major_strides(sizes);
  // What permutes it finds it in its own order.
  const auto permuted = row_major_strides(shape(reader->output));
  Shape strides(sizes.size());
  for (std::size_t d = 0; d < strides.size(); ++d)
    strides[static_cast<std::size_t>(reader->order[d])] = permuted[d];
  return strides;
}

View Compilation::fresh(Dtype dtype, const Shape& sizes, const Shape& strides, double scale, int zero_point) {
  return {.dtype = dtype,
          .scale = scale,
          .zero_point = zero_point,
          .sizes = sizes,
          .strides = strides,
          .buffer = add_buffer({Place::Arena, span_of(sizes, strides) * bytes_of(dtype), 0, nullptr})};
}

View Compilation::fresh(int value, const Shape& strides) {
  const View stored = stored_as(value);
  return fresh(stored.dtype, shape(value), strides, stored.scale, stored.zero_point);
}

View Compilation::destination(int value, const Shape& strides) {
  const auto& place = reserved(value);
  if (place && same_quantization(*place, stored_as(value)) &&
      same_strides(place->sizes, place->strides, strides)) {
    return *place;
  }
  return fresh(value, strides);
}

View Compilation::any_destination(int value) {
  const auto& place = reserved(value);
  // What other operations read too is kept as they want it.
  const bool returned_only = place && use_count_[at(value)] == 1;
  if (place && (returned_only || same_strides(place->sizes, place->strides, strides_of(value))))
    return *place;
  return fresh(value, strides_of(value));
}

View Compilation::quantized_like(const View& input, const View& place) {
  if (same_quantization(input, place)) return place;
  return fresh(input.dtype, place.sizes, channels_last_strides(place.sizes), input.scale, input.zero_point);
}

void Compilation::deliver(int value, const View& view) {
  views_[at(value)] = view;
  const auto& place = reserved(value);
  const bool is_there =
      place && place->buffer == view.buffer && place->offset == view.offset && view.moves.empty();
  if (place && !is_there) add_copy(view, *place);
}

bool Compilation::is_last_use(const View& view) const {
  if (buffers[at(view.buffer)].place != Place::Arena) return false;
  for (std::size_t value = 0; value < views_.size(); ++value) {
    const bool reserves = reserved_[value] && reserved_[value]->buffer == view.buffer;
    const bool read_later = views_[value] && views_[value]->buffer == view.buffer &&
                            last_use_[value] > static_cast<int>(current_);
    if (reserves || read_later) return false;
  }
  return true;
}

void Compilation::add_copy(const View& from, const View& to, const char* implementation) {
  ConvertTask task;
  const Shape strides[] = {to.strides, from.strides};
  task.loops = make_loops(to.sizes, strides);
  task.from = from.dtype;
  task.plain = same_quantization(from, to);
  // What is read is the number as it stands in memory: its own scale comes first.
  task.to = rounding_of(to, from.scale, -from.scale * from.zero_point);
  if (task.plain && is_int8(to.dtype)) {
    task.to.scale = 1;
    task.to.offset = 0;
  }
  const bool tiled = from.dtype != Dtype::I64 && order_for_tiles(task.loops);
  const View views[] = {to, from};
  const auto units = tiled ? tiles_of(task.loops) : units_of(task.loops);
  const auto run = tiled ? kernels().convert_tiles : kernels().convert;
  const char* name = implementation != nullptr ? implementation : task.plain ? "copy" : "convert";
  add_kernel(std::string(name) + (tiled ? ":tiles" : ""), views, units,
             [task, run](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
               run(task, pointers[0], pointers[1], begin, end);
             });
}

void Compilation::add_kernel(std::string implementation, std::span<const View> views, std::int64_t units,
                             Part part, std::function<void(std::byte* const* pointers)> check) {
  add_kernel_step(std::move(implementation), views,
                  [units, part = std::move(part), check = std::move(check),
                   threads = threads_](std::byte* const* pointers) {
                    if (check) check(pointers);
                    parallel(units, threads,
                             [&](std::int64_t begin, std::int64_t end) { part(pointers, begin, end); });
                  });
}

void Compilation::add_meeting_kernel(std::string implementation, std::span<const View> views,
                                     std::int64_t units, Part part) {
  add_kernel_step(std::move(implementation), views,
                  [units, part = std::move(part), threads = threads_](std::byte* const* pointers) {
                    parallel(units, RunningProgram::has_company() ? 1 : threads,
                             [&](std::int64_t begin, std::int64_t end) { part(pointers, begin, end); });
                  });
}

void Compilation::add_kernel_step(std::string implementation, std::span<const View> views,
                                  std::function<void(std::byte* const* pointers)> kernel) {
  Step step{.operation = current_,
            .implementation = "tsq:" + std::move(implementation),
            .shape = to_text(views.back().sizes) + " -> " + to_text(views.front().sizes),
            .kernel = std::move(kernel)};
  for (const auto& view : views) step.operands.push_back(operand(0, view, {}));
  steps.push_back(std::move(step));
}

void Compilation::add_primitive(const dnnl::primitive_desc_base& descriptor, const dnnl::primitive& primitive,
                                std::string shape, std::vector<Operand> operands) {
  const auto scratchpad = descriptor.scratchpad_desc();
  if (scratchpad.get_size() > 0) {
    const int buffer =
        add_buffer({Place::Arena, static_cast<std::int64_t>(scratchpad.get_size()), 0, nullptr});
    operands.push_back({buffer, 0, DNNL_ARG_SCRATCHPAD, scratchpad});
  }
  steps.push_back({.operation = current_,
                   .implementation = descriptor.impl_info_str(),
                   .shape = std::move(shape),
                   .operands = std::move(operands),
                   .primitive = primitive});
}

Operand Compilation::operand(int argument, const View& view, const dnnl::memory::desc& desc) const {
  Operand operand{view.buffer, view.offset * bytes_of(view.dtype), argument, desc, view.moves};
  for (auto& move : operand.moves) move.stride *= bytes_of(view.dtype);
  return operand;
}

Operand Compilation::constant_operand(int argument, std::shared_ptr<const void> data,
                                      const dnnl::memory::desc& desc) {
  return {add_buffer({Place::Constant, 0, 0, std::move(data)}), 0, argument, desc};
}

Operand Compilation::floats_operand(int argument, const std::vector<float>& numbers,
                                    const dnnl::memory::desc& desc) {
  const auto memory = aligned_memory(numbers.size() * sizeof(float));
  std::memcpy(memory.get(), numbers.data(), numbers.size() * sizeof(float));
  return constant_operand(argument, memory, desc);
}

Operand Compilation::int_operand(int argument, int number) {
  const auto memory = aligned_memory(sizeof(std::int32_t));
  *static_cast<std::int32_t*>(memory.get()) = number;
  return constant_operand(argument, memory, {{1}, dnnl::memory::data_type::s32, dnnl::memory::format_tag::x});
}

Operand Compilation::packed_operand(int argument, const Constant& plain, const dnnl::memory::desc& from,
                                    const dnnl::memory::desc& to) {
  return constant_operand(argument, weights_.get(plain.data, from, to), to);
}

void Compilation::finish() {
  begin(program().operations.empty() ? 0 : program().operations.size() - 1);
  for (std::size_t i = 0; i < program().outputs.size(); ++i) {
    const int value = program().outputs[i];
    if (elements_of(shape(value)) == 0) continue;
    const auto buffer = std::ranges::find_if(buffers, [&](const Buffer& candidate) {
      return candidate.place == Place::Output && candidate.index == static_cast<int>(i);
    });
    const auto index = static_cast<int>(buffer - buffers.begin());
    const auto& place = reserved(value);
    if (place && place->buffer == index) continue;
    const auto& declared = program().values[at(value)];
    add_copy(view(value), {.dtype = declared.dtype,
                           .scale = declared.scale,
                           .zero_point = declared.zero_point,
                           .sizes = shape(value),
                           .strides = row_major_strides(shape(value)),
                           .buffer = index});
  }
}

}  // namespace tsq::runtime
