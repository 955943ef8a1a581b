#include <algorithm>

#include "runtime/primitives/builders.h"
#include "runtime/primitives/weights.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

using dnnl::memory;

/// What a convolution and a transposed one have in common, in oneDNN's terms.
struct Geometry {
  Shape stride;
  Shape dilation;
  Shape before;
  Shape after;
  bool pads = false;
};

Geometry geometry_of(const Operation& operation, std::size_t dimensions) {
  Geometry geometry{.stride = spatial(operation.stride, dimensions, 1),
                    .dilation = spatial(operation.dilation, dimensions, 1),
                    .before = spatial(operation.padding_begin, dimensions, 0),
                    .after = spatial(operation.padding_end, dimensions, 0)};
  for (auto& dilation : geometry.dilation) --dilation;
  const auto nonzero = [](std::int64_t padding) { return padding != 0; };
  geometry.pads =
      std::ranges::any_of(geometry.before, nonzero) || std::ranges::any_of(geometry.after, nonzero);
  return geometry;
}

/// The weights as they stand in the file, with oneDNN's dimensions: [groups], output, input, kernel.
memory::desc plain_weights(const Operation& operation, const Constant& weight) {
  const auto groups = operation.groups;
  const auto& shape = weight.shape;
  const auto row_major = row_major_strides(shape);
  Shape sizes;
  Shape strides;
  if (operation.kind == Kind::TransposedConvolution) {
    sizes = {shape[1], shape[0] / groups};
    strides = {row_major[1], row_major[0]};
  } else {
    sizes = {shape[0] / groups, shape[1]};
    strides = {row_major[0], row_major[1]};
  }
  if (groups > 1) {
    sizes.insert(sizes.begin(), groups);
    strides.insert(strides.begin(), row_major[0] * (shape[0] / groups));
  }
  sizes.insert(sizes.end(), shape.begin() + 2, shape.end());
  strides.insert(strides.end(), row_major.begin() + 2, row_major.end());
  return {sizes, data_type_of(weight.dtype), strides};
}

/// Everything that both kinds of primitive are made of.
struct Layer {
  View source;
  View output;
  Epilogue epilogue;
  Geometry geometry;
  memory::desc weights;  ///< as they stand in the file
  std::vector<float> scales{};
  std::vector<float> bias{};
  bool source_zero_point = false;  ///< left to the primitive
};

Layer layer_of(Compilation& compilation, const View& output) {
  const auto& operation = compilation.operation();
  const auto& weight = compilation.constant(*operation.weight);
  const View read = compilation.view(operation.inputs[0]);
  const View source = compilation.channels_last(compilation.as_unsigned(read));
  Layer layer{.source = source,
              .output = output,
              .epilogue = {},
              .geometry = geometry_of(operation, source.sizes.size() - 2),
              .weights = plain_weights(operation, weight)};
  const bool int8 = is_int8(weight.dtype);
  const View inputs[] = {layer.source, read};
  layer.epilogue = plan_epilogue(compilation, output, inputs, {.scaled = int8, .shifted = true});
  layer.output = placed(compilation, output, layer.epilogue);
  // A zero point adds the same to every sum unless some of its positions are padding; between the steps of a
  // transposed convolution there is padding too.
  const bool folds = !layer.geometry.pads && operation.kind == Kind::Convolution;
  if (int8) {
    layer.scales = folded_scales(compilation, layer.source, layer.epilogue);
    layer.source_zero_point = layer.source.zero_point != 0 && !folds;
  }
  layer.bias = folded_bias(compilation, layer.source, layer.epilogue, int8 && folds);
  return layer;
}

dnnl::primitive_attr attributes_of(const Layer& layer, bool grouped) {
  auto attributes = attributes_with(layer.epilogue.post_ops);
  if (!layer.scales.empty()) {
    const int every_channel = grouped ? 3 : 1;
    attributes.set_scales_mask(DNNL_ARG_WEIGHTS, layer.scales.size() == 1 ? 0 : every_channel);
  }
  if (layer.source_zero_point) attributes.set_zero_points_mask(DNNL_ARG_SRC, 0);
  return attributes;
}

memory::desc bias_desc(const std::vector<float>& bias) {
  if (bias.empty()) return {};
  return {{static_cast<std::int64_t>(bias.size())}, memory::data_type::f32, memory::format_tag::x};
}

memory::desc any_layout(const memory::desc& desc) {
  return {desc.get_dims(), desc.get_data_type(), memory::format_tag::any};
}

std::string shape_text(const Compilation& compilation, const Layer& layer) {
  const auto& operation = compilation.operation();
  return to_text(layer.source.sizes) + " * " + to_text(compilation.constant(*operation.weight).shape) +
         " groups " + std::to_string(operation.groups) + " -> " + to_text(layer.output.sizes);
}

template <typename Descriptor, typename Primitive>
void add_layer(Compilation& compilation, const Layer& layer, const Descriptor& descriptor,
               const Primitive& primitive) {
  const auto& operation = compilation.operation();
  std::vector<Operand> operands{
      compilation.operand(DNNL_ARG_SRC, layer.source, descriptor.src_desc()),
      compilation.operand(DNNL_ARG_DST, layer.output, descriptor.dst_desc()),
      compilation.packed_operand(DNNL_ARG_WEIGHTS, compilation.constant(*operation.weight), layer.weights,
                                 descriptor.weights_desc())};
  if (!layer.bias.empty()) {
    operands.push_back(compilation.floats_operand(DNNL_ARG_BIAS, layer.bias, bias_desc(layer.bias)));
  }
  if (!layer.scales.empty()) {
    operands.push_back(compilation.floats_operand(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, layer.scales,
                                                  bias_desc(layer.scales)));
  }
  if (layer.source_zero_point) {
    operands.push_back(
        compilation.int_operand(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, layer.source.zero_point));
  }
  operands.insert(operands.end(), layer.epilogue.operands.begin(), layer.epilogue.operands.end());
  compilation.add_primitive(descriptor, primitive, shape_text(compilation, layer), std::move(operands));
}

dnnl::convolution_forward::primitive_desc convolution_descriptor(const Layer& layer, bool grouped) {
  return {cpu_engine(),
          dnnl::prop_kind::forward_inference,
          dnnl::algorithm::convolution_direct,
          channels_last_desc(layer.source.dtype, layer.source.sizes),
          any_layout(layer.weights),
          bias_desc(layer.bias),
          channels_last_desc(layer.output.dtype, layer.output.sizes),
          layer.geometry.stride,
          layer.geometry.dilation,
          layer.geometry.before,
          layer.geometry.after,
          attributes_of(layer, grouped)};
}

}  // namespace

bool build_convolution(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View output =
      compilation.destination(operation.output, channels_last_strides(compilation.shape(operation.output)));
  const Layer layer = layer_of(compilation, output);
  const auto descriptor = convolution_descriptor(layer, operation.groups > 1);
  add_layer(compilation, layer, descriptor, dnnl::convolution_forward(descriptor));
  compilation.deliver(operation.output, layer.output);
  return true;
}

bool build_transposed_convolution(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View output =
      compilation.destination(operation.output, channels_last_strides(compilation.shape(operation.output)));
  const Layer layer = layer_of(compilation, output);
  const dnnl::deconvolution_forward::primitive_desc descriptor(
      cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct,
      channels_last_desc(layer.source.dtype, layer.source.sizes), any_layout(layer.weights),
      bias_desc(layer.bias), channels_last_desc(output.dtype, output.sizes), layer.geometry.stride,
      layer.geometry.dilation, layer.geometry.before, layer.geometry.after,
      attributes_of(layer, operation.groups > 1));
  add_layer(compilation, layer, descriptor, dnnl::deconvolution_forward(descriptor));
  compilation.deliver(operation.output, layer.output);
  return true;
}

}  // namespace tsq::runtime
