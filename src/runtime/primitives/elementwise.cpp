#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "runtime/primitives/builders.h"
#include "runtime/primitives/epilogue.h"
#include "runtime/primitives/layouts.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

/// A number of an int8 dtype, as the byte that stands for it: the highest for what is no number.
std::uint8_t byte_of(double number, Dtype dtype) {
  const double lowest = dtype == Dtype::U8 ? 0 : -128;
  if (std::isnan(number)) number = lowest + 255;
  const auto rounded = static_cast<int>(std::clamp(std::nearbyint(number), lowest, lowest + 255));
  return static_cast<std::uint8_t>(rounded);
}

LookupTask table_of(const View& input, const View& output, const std::vector<PostOp>& post_ops) {
  LookupTask task;
  task.to = output.dtype;
  for (int byte = 0; byte < 256; ++byte) {
    const int number = input.dtype == Dtype::U8 || byte < 128 ? byte : byte - 256;
    double real = input.scale * (number - input.zero_point);
    for (const auto& post_op : post_ops) real = function_of(post_op, real);
    const auto index = static_cast<std::size_t>(byte);
    task.floats[index] = static_cast<float>(real);
    if (is_int8(output.dtype))
      task.bytes[index] = byte_of(real / output.scale + output.zero_point, output.dtype);
  }
  return task;
}

}  // namespace

bool build_convert(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View input = compilation.view(operation.inputs[0]);
  const View output = compilation.any_destination(operation.output);
  compilation.add_copy(input, output);
  compilation.deliver(operation.output, output);
  return true;
}

namespace {

struct BinaryRow {
  Kind kind;
  BinaryKind computed;
  const char* name;
};

constexpr std::array kBinaries{
    BinaryRow{Kind::Add, BinaryKind::Add, "add"},
    BinaryRow{Kind::Sub, BinaryKind::Sub, "sub"},
    BinaryRow{Kind::Mul, BinaryKind::Mul, "mul"},
    BinaryRow{Kind::Div, BinaryKind::Div, "div"},
    BinaryRow{Kind::Maximum, BinaryKind::Max, "max"},
    BinaryRow{Kind::Minimum, BinaryKind::Min, "min"},
    BinaryRow{Kind::Equal, BinaryKind::Equal, "equal"},
    BinaryRow{Kind::NotEqual, BinaryKind::NotEqual, "not_equal"},
    BinaryRow{Kind::Less, BinaryKind::Less, "less"},
    BinaryRow{Kind::LessEqual, BinaryKind::LessEqual, "less_equal"},
};

}  // namespace

bool build_binary(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View a = compilation.view(operation.inputs[0]);
  const View b = compilation.view(operation.inputs[1]);
  const View output = compilation.any_destination(operation.output);
  const auto& row = *std::ranges::find(kBinaries, operation.kind, &BinaryRow::kind);
  BinaryTask task{.kind = row.computed,
                  .a = a.dtype,
                  .b = b.dtype,
                  .a_real = real_of(a),
                  .b_real = real_of(b),
                  .to = rounding_of(output)};
  const Shape strides[] = {output.strides, broadcast_strides(a, output.sizes),
                           broadcast_strides(b, output.sizes)};
  task.loops = make_loops(output.sizes, strides);
  narrow(task.to, output, operation.post_ops);
  const View views[] = {output, a, b};
  compilation.add_kernel(row.name, views, units_of(task.loops),
                         [task](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
                           kernels().binary(task, pointers[0], pointers[1], pointers[2], begin, end);
                         });
  compilation.deliver(operation.output, output);
  return true;
}

bool build_where(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View condition = compilation.view(operation.inputs[0]);
  const View a = compilation.view(operation.inputs[1]);
  const View b = compilation.view(operation.inputs[2]);
  const View output = compilation.any_destination(operation.output);
  WhereTask task{.condition = condition.dtype,
                 .none = static_cast<float>(condition.zero_point),
                 .a = a.dtype,
                 .b = b.dtype,
                 .a_real = real_of(a),
                 .b_real = real_of(b),
                 .to = rounding_of(output)};
  const Shape strides[] = {output.strides, broadcast_strides(condition, output.sizes),
                           broadcast_strides(a, output.sizes), broadcast_strides(b, output.sizes)};
  task.loops = make_loops(output.sizes, strides);
  const View views[] = {output, condition, a, b};
  compilation.add_kernel("where", views, units_of(task.loops),
                         [task](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
                           kernels().where(task, pointers[0], pointers[1], pointers[2], pointers[3], begin,
                                           end);
                         });
  compilation.deliver(operation.output, output);
  return true;
}

bool build_prelu(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View input = compilation.view(operation.inputs[0]);
  const View output = compilation.any_destination(operation.output);
  const View slopes = compilation.constant_view(*operation.weight);
  Shape slope_strides(input.sizes.size(), 0);
  if (elements_of(slopes.sizes) > 1) slope_strides[input.sizes.size() < 2 ? 0 : 1] = 1;
  PreluTask task{.from = input.dtype, .real = real_of(input), .to = rounding_of(output)};
  const Shape strides[] = {output.strides, input.strides, slope_strides};
  task.loops = make_loops(output.sizes, strides);
  const View views[] = {output, input, slopes};
  compilation.add_kernel("prelu", views, units_of(task.loops),
                         [task](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
                           kernels().prelu(task, pointers[0], pointers[1], pointers[2], begin, end);
                         });
  compilation.deliver(operation.output, output);
  return true;
}

namespace {

/// The places of the result from `position` of the axis on. `joined` has the scale of the concatenation that
/// the input is a part of, if it is.
void add_scale_shift(Compilation& compilation, const View& input, const View& output, std::size_t axis,
                     std::int64_t position, const std::optional<View>& joined = {}) {
  const auto& operation = compilation.operation();
  ScaleShiftTask task{.from = input.dtype, .to = rounding_of(output)};
  View multiplied = input;  // the numbers that weights multiply
  if (joined && is_int8(joined->dtype) && !same_quantization(input, *joined)) {
    task.joined = rounding_of(*joined, input.scale, -input.scale * input.zero_point);
    multiplied = *joined;
  }
  const auto numbers = [&](const std::optional<int>& index, double standard, std::int64_t place) {
    if (!index) return standard;
    const auto& constant = compilation.constant(*index);
    const auto last = elements_of(constant.shape) - 1;
    return double{static_cast<const float*>(constant.data.get())[std::min(position + place, last)]};
  };
  compilation.hold(2 * input.sizes[axis], sizeof(float));
  std::vector<float> weights;
  std::vector<float> biases;
  for (std::int64_t place = 0; place < input.sizes[axis]; ++place) {
    const double weight = numbers(operation.weight, 1, place) * multiplied.scale;
    const double bias = numbers(operation.bias, 0, place) - weight * multiplied.zero_point;
    weights.push_back(static_cast<float>(weight * task.to.scale));
    biases.push_back(static_cast<float>(bias * task.to.scale + task.to.offset));
  }
  task.to.scale = 1;
  task.to.offset = 0;
  narrow(task.to, output, operation.post_ops);
  Shape channels(input.sizes.size(), 0);
  channels[axis] = 1;
  const Shape strides[] = {output.strides, input.strides, channels, channels};
  task.loops = make_loops(output.sizes, strides);
  const View views[] = {output, input, compilation.numbers_view(weights), compilation.numbers_view(biases)};
  compilation.add_kernel("scale_shift", views, units_of(task.loops),
                         [task](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
                           kernels().scale_shift(task, pointers[0], pointers[1], pointers[2], pointers[3],
                                                 begin, end);
                         });
}

/// The concatenation that is left to the current operation, or none.
const Operation* joined_input(const Compilation& compilation) {
  const auto& program = compilation.program();
  const int input = compilation.operation().inputs[0];
  const auto writer = std::ranges::find(program.operations, input, &Operation::output);
  const bool concatenates = writer != program.operations.end() && writer->kind == Kind::Concat;
  return concatenates && is_left_to_reader(program, *writer) ? &*writer : nullptr;
}

}  // namespace

bool build_scale_shift(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View output = compilation.any_destination(operation.output);
  const auto axis = axis_of(operation, output.sizes.size());
  const auto* concat = joined_input(compilation);
  if (concat == nullptr) {
    add_scale_shift(compilation, compilation.view(operation.inputs[0]), output, axis, 0);
  } else {
    const View joined = compilation.stored_as(concat->output);
    std::int64_t position = 0;
    for (const int input : concat->inputs) {
      const View part = compilation.view(input);
      const View written = part_of(output, part.sizes, axis, position);
      add_scale_shift(compilation, part, written, axis, position, joined);
      position += part.sizes[axis];
    }
  }
  compilation.deliver(operation.output, output);
  return true;
}

bool build_lookup(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View input = compilation.view(operation.inputs[0]);
  if (!is_int8(input.dtype)) return false;
  const View output = compilation.any_destination(operation.output);
  auto task = table_of(input, output, operation.post_ops);
  const Shape strides[] = {output.strides, input.strides};
  task.loops = make_loops(output.sizes, strides);
  const View views[] = {output, input};
  compilation.add_kernel("lookup", views, units_of(task.loops),
                         [task](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
                           kernels().lookup(task, pointers[0], pointers[1], begin, end);
                         });
  compilation.deliver(operation.output, output);
  return true;
}

bool build_eltwise(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const auto strides = compilation.strides_of(operation.output);
  const View input = compilation.with_strides(compilation.view(operation.inputs[0]), strides);
  const View place = compilation.destination(operation.output, strides);
  const View output = place.dtype == Dtype::F32 ? place : compilation.fresh(Dtype::F32, place.sizes, strides);
  dnnl::post_ops post_ops;
  for (std::size_t i = 1; i < operation.post_ops.size(); ++i)
    append_function(post_ops, operation.post_ops[i]);
  const auto first = operation.post_ops.empty() ? Eltwise{dnnl::algorithm::eltwise_linear, 1, 0}
                                                : eltwise_of(operation.post_ops.front());
  const auto flat = row_major_desc(Dtype::F32, {elements_of(input.sizes)});
  const dnnl::eltwise_forward::primitive_desc descriptor(cpu_engine(), dnnl::prop_kind::forward_inference,
                                                         first.algorithm, flat, flat, first.alpha, first.beta,
                                                         attributes_with(post_ops));
  compilation.add_primitive(
      descriptor, dnnl::eltwise_forward(descriptor), to_text(input.sizes),
      {compilation.operand(DNNL_ARG_SRC, input, flat), compilation.operand(DNNL_ARG_DST, output, flat)});
  if (output.buffer != place.buffer) compilation.add_copy(output, place);
  compilation.deliver(operation.output, place);
  return true;
}

}  // namespace tsq::runtime
