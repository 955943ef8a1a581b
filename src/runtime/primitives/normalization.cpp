#include <string_view>

#include "runtime/primitives/builders.h"
#include "runtime/primitives/epilogue.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

dnnl::softmax_forward::primitive_desc softmax_descriptor(const View& input, const View& output,
                                                         std::size_t axis) {
  auto attributes = attributes_with({});
  if (is_int8(output.dtype)) attributes.set_scales_mask(DNNL_ARG_DST, 0);
  return {cpu_engine(),
          dnnl::prop_kind::forward_inference,
          dnnl::algorithm::softmax_accurate,
          row_major_desc(input.dtype, input.sizes),
          row_major_desc(output.dtype, output.sizes),
          static_cast<int>(axis),
          attributes};
}

/// Does oneDNN have a kernel that rounds the result itself? It has none for a zero point.
bool rounds_itself(const View& input, const View& output, std::size_t axis) {
  if (!is_int8(output.dtype) || output.zero_point != 0) return false;
  try {
    return !std::string_view(softmax_descriptor(input, output, axis).impl_info_str()).starts_with("ref");
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace

bool build_softmax_of_rows(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View read = compilation.view(operation.inputs[0]);
  if (read.sizes.empty() || axis_of(operation, read.sizes.size()) + 1 != read.sizes.size()) return false;
  if (read.sizes.back() > kSoftmaxRow) return false;
  const View input = compilation.with_strides(read, row_major_strides(read.sizes));
  const View output = compilation.destination(operation.output, row_major_strides(read.sizes));
  const SoftmaxTask task{.length = input.sizes.back(),
                         .from = input.dtype,
                         .scale = static_cast<float>(input.scale),
                         .to = rounding_of(output)};
  const View views[] = {output, input};
  compilation.add_kernel("softmax", views, elements_of(input.sizes) / task.length,
                         [task](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
                           kernels().softmax(task, pointers[0], pointers[1], begin, end);
                         });
  compilation.deliver(operation.output, output);
  return true;
}

bool build_softmax(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const auto& sizes = compilation.shape(operation.output);
  const auto strides = row_major_strides(sizes);
  const auto axis = axis_of(operation, sizes.size());
  const View input =
      compilation.with_strides(compilation.as_float(compilation.view(operation.inputs[0])), strides);
  const View place = compilation.destination(operation.output, strides);
  const bool direct = place.dtype == Dtype::F32 || rounds_itself(input, place, axis);
  const View output = direct ? place : compilation.fresh(Dtype::F32, sizes, strides);
  const auto descriptor = softmax_descriptor(input, output, axis);
  std::vector<Operand> operands{
      compilation.operand(DNNL_ARG_SRC, input, row_major_desc(input.dtype, sizes)),
      compilation.operand(DNNL_ARG_DST, output, row_major_desc(output.dtype, sizes))};
  if (is_int8(output.dtype)) {
    operands.push_back(
        compilation.floats_operand(DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, {static_cast<float>(output.scale)},
                                   {{1}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::x}));
  }
  compilation.add_primitive(descriptor, dnnl::softmax_forward(descriptor), to_text(sizes),
                            std::move(operands));
  if (!direct) compilation.add_copy(output, place);
  compilation.deliver(operation.output, place);
  return true;
}

namespace {

/// Normalizes rows of `length` neighbours.
void add_normalization(Compilation& compilation, const View& input, const View& output, LayerNormTask task,
                       const char* name) {
  const auto& operation = compilation.operation();
  task.from = input.dtype;
  task.real = real_of(input);
  task.epsilon = static_cast<float>(operation.epsilon);
  task.to = rounding_of(output);
  std::vector<std::shared_ptr<const void>> held;  // what the task points to
  const auto floats_of = [&](const std::optional<int>& index) {
    return index ? static_cast<const float*>(held.emplace_back(compilation.constant(*index).data).get())
                 : nullptr;
  };
  task.weight = floats_of(operation.weight);
  task.bias = floats_of(operation.bias);
  const View views[] = {output, input};
  compilation.add_kernel(name, views, elements_of(input.sizes) / task.length,
                         [task, held](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
                           kernels().layer_norm(task, pointers[0], pointers[1], begin, end);
                         });
}

}  // namespace

bool build_layer_norm(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View read = compilation.view(operation.inputs[0]);
  const View input = compilation.with_strides(read, row_major_strides(read.sizes));
  const View output = compilation.destination(operation.output, row_major_strides(read.sizes));
  add_normalization(compilation, input, output, {.length = input.sizes.back()}, "layer_norm");
  compilation.deliver(operation.output, output);
  return true;
}

bool build_group_norm(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View read = compilation.view(operation.inputs[0]);
  const View input = compilation.with_strides(read, row_major_strides(read.sizes));
  const View output = compilation.destination(operation.output, row_major_strides(read.sizes));
  const auto positions = elements_of(read.sizes) / read.sizes[0] / read.sizes[1];
  const auto length = read.sizes[1] / operation.groups * positions;
  add_normalization(compilation, input, output,
                    {.length = length, .repeat = positions, .groups = operation.groups}, "group_norm");
  compilation.deliver(operation.output, output);
  return true;
}

}  // namespace tsq::runtime
