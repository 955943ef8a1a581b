#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "runtime/primitives/builders.h"
#include "runtime/primitives/epilogue.h"
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

bool build_channelwise(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View input = compilation.view(operation.inputs[0]);
  const View output = compilation.any_destination(operation.output);
  const bool slopes = operation.kind == Kind::Prelu;
  const auto rank = input.sizes.size();
  const auto axis = slopes ? (rank < 2 ? 0 : 1) : axis_of(operation, rank);
  ChannelwiseTask task{
      .slopes = slopes, .from = input.dtype, .real = real_of(input), .to = rounding_of(output)};
  // One number, or one for each place of the axis; what is not there is 1 or 0.
  const auto numbers = [&](const std::optional<int>& index, float standard) {
    if (index) return compilation.constant_view(*index);
    return compilation.number_view(standard);
  };
  const auto strides_of = [&](const View& view) {
    Shape strides(rank, 0);
    if (elements_of(view.sizes) > 1) strides[axis] = 1;
    return strides;
  };
  const View weight = numbers(operation.weight, 1);
  const View bias = numbers(operation.bias, 0);
  const Shape strides[] = {output.strides, input.strides, strides_of(weight), strides_of(bias)};
  task.loops = make_loops(output.sizes, strides);
  narrow(task.to, output, operation.post_ops);
  const View views[] = {output, weight, bias, input};
  compilation.add_kernel(slopes ? "prelu" : "scale_shift", views, units_of(task.loops),
                         [task](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
                           kernels().channelwise(task, pointers[0], pointers[3], pointers[1], pointers[2],
                                                 begin, end);
                         });
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
