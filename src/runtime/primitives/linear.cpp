#include "runtime/primitives/builders.h"
#include "runtime/primitives/weights.h"

namespace tsq::runtime {
namespace {

using dnnl::memory;

/// All dimensions but the last as one.
Shape rows_of(const Shape& sizes) { return {elements_of(sizes) / sizes.back(), sizes.back()}; }

/// The rows of a tensor: as they lie, if they have one stride, else a copy.
View rows_of(Compilation& compilation, const View& view) {
  const auto sizes = rows_of(view.sizes);
  const auto rows = reshaped(view, sizes);
  const bool readable =
      rows && (sizes[1] == 1 || rows->strides[1] == 1) && (sizes[0] == 1 || rows->strides[0] >= sizes[1]);
  View read =
      readable ? *rows : *reshaped(compilation.with_strides(view, row_major_strides(view.sizes)), sizes);
  read.strides = {sizes[0] == 1 ? sizes[1] : read.strides[0], 1};
  return read;
}

memory::desc row_desc(const std::vector<float>& numbers) {
  return {{1, static_cast<std::int64_t>(numbers.size())}, memory::data_type::f32, memory::format_tag::ab};
}

memory::desc list_desc(const std::vector<float>& numbers) {
  return {{static_cast<std::int64_t>(numbers.size())}, memory::data_type::f32, memory::format_tag::x};
}

}  // namespace

bool build_linear(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const auto& weight = compilation.constant(*operation.weight);
  const bool int8 = is_int8(weight.dtype);
  const View read = compilation.view(operation.inputs[0]);
  const View source = rows_of(compilation, compilation.as_unsigned(read));
  const View wanted =
      compilation.destination(operation.output, row_major_strides(compilation.shape(operation.output)));
  const View inputs[] = {source, read};
  const auto epilogue =
      plan_epilogue(compilation, wanted, inputs, {.scaled = int8, .shifted = true, .form = Form::Rows});
  const View output = placed(compilation, wanted, epilogue);
  const auto scales = int8 ? folded_scales(compilation, source, epilogue) : std::vector<float>{};
  const auto bias = folded_bias(compilation, source, epilogue, int8);

  auto attributes = attributes_with(epilogue.post_ops);
  constexpr int kEveryColumn = 1 << 1;
  if (int8) attributes.set_scales_mask(DNNL_ARG_WEIGHTS, scales.size() == 1 ? 0 : kEveryColumn);
  const Shape weight_sizes{weight.shape[1], weight.shape[0]};
  const auto data_type = data_type_of(weight.dtype);
  const memory::desc plain(weight_sizes, data_type, memory::format_tag::ba);
  const memory::desc any(weight_sizes, data_type, memory::format_tag::any);
  const auto source_desc = desc_of(source);
  const auto output_desc = row_major_desc(output.dtype, rows_of(output.sizes));
  const auto bias_desc = bias.empty() ? memory::desc() : row_desc(bias);
  const dnnl::matmul::primitive_desc descriptor(cpu_engine(), source_desc, any, bias_desc, output_desc,
                                                attributes);

  std::vector<Operand> operands{
      compilation.operand(DNNL_ARG_SRC, source, source_desc),
      compilation.operand(DNNL_ARG_DST, output, output_desc),
      compilation.packed_operand(DNNL_ARG_WEIGHTS, weight, plain, descriptor.weights_desc())};
  if (!bias.empty()) operands.push_back(compilation.floats_operand(DNNL_ARG_BIAS, bias, bias_desc));
  if (int8) {
    operands.push_back(
        compilation.floats_operand(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, scales, list_desc(scales)));
  }
  operands.insert(operands.end(), epilogue.operands.begin(), epilogue.operands.end());
  const auto shape = to_text(read.sizes) + " * " + to_text(weight.shape) + " -> " + to_text(output.sizes);
  compilation.add_primitive(descriptor, dnnl::matmul(descriptor), shape, std::move(operands));
  compilation.deliver(operation.output, output);
  return true;
}

}  // namespace tsq::runtime
