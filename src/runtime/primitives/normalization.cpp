#include <algorithm>
#include <optional>
#include <string_view>

#include "runtime/primitives/builders.h"
#include "runtime/primitives/epilogue.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

dnnl::softmax_forward::primitive_desc softmax_descriptor(const Operation& operation, const View& input,
                                                         const View& output) {
  const bool logarithm = operation.kind == Kind::LogSoftmax;
  auto attributes = attributes_with({});
  if (is_int8(output.dtype)) attributes.set_scales_mask(DNNL_ARG_DST, 0);
  return {cpu_engine(),
          dnnl::prop_kind::forward_inference,
          logarithm ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate,
          row_major_desc(input.dtype, input.sizes),
          row_major_desc(output.dtype, output.sizes),
          static_cast<int>(axis_of(operation, input.sizes.size())),
          attributes};
}

/// Does oneDNN have a kernel that rounds the result itself? It has none for a zero point.
bool rounds_itself(const Operation& operation, const View& input, const View& output) {
  if (!is_int8(output.dtype) || output.zero_point != 0) return false;
  try {
    return !std::string_view(softmax_descriptor(operation, input, output).impl_info_str()).starts_with("ref");
  } catch (const dnnl::error&) {
    return false;
  }
}

/// Those of a tensor that is dense, with the numbers along `axis` beside each other.
Shape strides_along(const Shape& sizes, std::size_t axis) {
  Shape strides(sizes.size());
  std::int64_t stride = sizes[axis];
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = i == axis ? 1 : stride;
    if (i != axis) stride *= sizes[i];
  }
  return strides;
}

}  // namespace

bool build_softmax_of_rows(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View read = compilation.view(operation.inputs[0]);
  if (read.sizes.empty()) return false;
  // oneDNN has no fast kernel along another dimension than the last.
  const std::size_t axis = axis_of(operation, read.sizes.size());
  if (read.sizes[axis] > kSoftmaxRow) return false;
  const Shape strides = strides_along(read.sizes, axis);
  const View input = compilation.with_strides(read, strides);
  const View output = compilation.destination(operation.output, strides);
  const SoftmaxTask task{.length = input.sizes[axis],
                         .from = input.dtype,
                         .scale = static_cast<float>(input.scale),
                         .logarithm = operation.kind == Kind::LogSoftmax,
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
  const View input =
      compilation.with_strides(compilation.as_float(compilation.view(operation.inputs[0])), strides);
  const View place = compilation.destination(operation.output, strides);
  const bool direct = place.dtype == Dtype::F32 || rounds_itself(operation, input, place);
  const View output = direct ? place : compilation.fresh(Dtype::F32, sizes, strides);
  const auto descriptor = softmax_descriptor(operation, input, output);
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

/// An operation that rounds what the current one returns, perhaps after a product with a constant.
struct RoundingAfter {
  const Operation* operation = nullptr;
  std::optional<int> factors{};  ///< a constant, one number for each place of a row
};

std::optional<int> factors_of(const Compilation& compilation, const Operation& product, std::int64_t length) {
  const auto& program = compilation.program();
  const int output = compilation.operation().output;
  if (product.kind != Kind::Mul || !product.post_ops.empty()) return std::nullopt;
  const int other = product.inputs[product.inputs[0] == output ? 1 : 0];
  const auto& held = program.values[static_cast<std::size_t>(other)].constant;
  if (!held || other == output) return std::nullopt;
  const auto& constant = compilation.constant(*held);
  return constant.dtype == Dtype::F32 && constant.shape == Shape{length} ? held : std::nullopt;
}

/// Of floats; without operation where there is none.
RoundingAfter rounding_after(const Compilation& compilation, const View& output) {
  const auto& program = compilation.program();
  if (output.dtype != Dtype::F32) return {};
  for (const Operation& reader : program.operations) {
    const bool reads =
        std::ranges::find(reader.inputs, compilation.operation().output) != reader.inputs.end();
    if (!reads || !is_int8(program.values[static_cast<std::size_t>(reader.output)].dtype)) continue;
    if (reader.kind == Kind::Convert) return {.operation = &reader};
    if (const auto factors = factors_of(compilation, reader, output.sizes.back())) return {&reader, factors};
  }
  return {};
}

/// Normalizes rows of `length` neighbours.
void add_normalization(Compilation& compilation, const View& input, const View& output, LayerNormTask task,
                       const RoundingAfter& after, const char* name) {
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
  std::vector<View> views{output, input};
  const bool rounds = after.operation != nullptr;
  if (rounds) {
    const View rounded = compilation.destination(after.operation->output, row_major_strides(input.sizes));
    task.rounded = rounding_of(rounded);
    task.factors = floats_of(after.factors);
    views.insert(views.begin() + 1, rounded);
  }
  compilation.add_kernel(
      name, views, elements_of(input.sizes) / task.length,
      [task, held, rounds](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
        void* rounded = rounds ? pointers[1] : nullptr;
        kernels().layer_norm(task, pointers[0], rounded, pointers[rounds ? 2 : 1], begin, end);
      });
  if (rounds) compilation.deliver(after.operation->output, views[1]);
}

}  // namespace

bool build_layer_norm(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View read = compilation.view(operation.inputs[0]);
  const View input = compilation.with_strides(read, row_major_strides(read.sizes));
  const View output = compilation.destination(operation.output, row_major_strides(read.sizes));
  add_normalization(compilation, input, output, {.length = input.sizes.back()},
                    rounding_after(compilation, output), "layer_norm");
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
                    {.length = length, .repeat = positions, .groups = operation.groups}, {}, "group_norm");
  compilation.deliver(operation.output, output);
  return true;
}

}  // namespace tsq::runtime
