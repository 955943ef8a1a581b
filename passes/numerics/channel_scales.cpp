#include "passes/numerics/channel_scales.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "ir/edit.h"
#include "ir/scaled_observer.h"
#include "match/channel_scaling.h"
#include "observers/observer_module.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

/// `values` in the shape of a tensor of `dimensions` axes, of which the first counts the channels.
at::Tensor along_first_axis(const at::Tensor& values, int64_t dimensions) {
  std::vector<int64_t> shape(static_cast<std::size_t>(dimensions), 1);
  shape.front() = values.numel();
  return values.reshape(shape);
}

Value* scaled_parameter(Model& model, Node* layer, const Value* old, const at::Tensor& value) {
  const Node* attribute = ir::is_observer(old->node()) ? old->node()->input(0)->node() : old->node();
  return ir::attribute_before(model, layer, attribute->s(c10::attr::name) + "_scaled", value);
}

void set_functional_parameters(Model& model, Node* layer, const match::Equalizable& kind,
                               const at::Tensor& weight, const at::Tensor& output_scale) {
  const Node* old_observer = kind.weight->node();
  Value* scaled = scaled_parameter(model, layer, kind.weight, weight);
  if (ir::is_observer(old_observer)) {
    const std::size_t like = ir::observer_index(old_observer);
    const std::size_t index = add_observer(model, like, make_observer(model.observers[like].spec));
    scaled = ir::insert_observer(model, scaled, index)->output();
  }
  ir::replace_operand(layer, kind.weight, scaled);
  if (kind.bias == nullptr || !output_scale.defined()) return;
  const at::Tensor bias = *match::parameter_after(model, kind.bias) * output_scale;
  ir::replace_operand(layer, kind.bias, scaled_parameter(model, layer, kind.bias, bias));
}

/// One value for each input channel → one for each element of the weight. Groups of a convolution read
/// channels of their own.
at::Tensor along_columns(const at::Tensor& values, const at::Tensor& weight) {
  const int64_t inputs = weight.size(1);
  const int64_t groups = values.numel() / inputs;
  std::vector<int64_t> shape(static_cast<std::size_t>(weight.dim()), 1);
  shape[0] = weight.size(0);
  shape[1] = inputs;
  return values.reshape({groups, inputs}).repeat_interleave(weight.size(0) / groups, 0).reshape(shape);
}

ir::ChannelStatistics scaled(const ir::ChannelStatistics& channels, const at::Tensor& scale) {
  if (!channels.mean.defined()) return channels;
  return {.mean = channels.mean * scale,
          .mean_square = channels.mean_square * scale.square(),
          .min = channels.min * scale,
          .max = channels.max * scale,
          .sizes = channels.sizes};
}

void scale_input_statistics(ir::Weighted& weighted, const at::Tensor& scale) {
  weighted.seen.input = scaled(weighted.seen.input, scale);
  if (!weighted.seen.input_products.defined()) return;
  const int64_t taps = weighted.weight.numel() / (weighted.weight.size(0) * weighted.weight.size(1));
  const at::Tensor by_column =
      at::constant_pad_nd(scale.reshape({weighted.groups, -1}).repeat_interleave(taps, 1), {0, 1}, 1.0);
  weighted.seen.input_products =
      weighted.seen.input_products * by_column.unsqueeze(1) * by_column.unsqueeze(2);
}

}  // namespace

const std::string& layer_path(const Model& model, const Node* layer) {
  return ir::is_module_call(layer) ? ir::call_of(model, layer).path : ir::scope_of(model, layer).path;
}

Value* multiply_channels(Model& model, Node* before, Value* x, const at::Tensor& factors,
                         const std::string& name, const Node* layer) {
  const int64_t channel_axis = match::scalable(model, layer)->channel_axis;
  Value* scale = ir::attribute_before(model, before, name, along_first_axis(factors, -channel_axis));
  Value* product = ir::insert_before(before, "aten::mul", {x, scale});
  ir::take_scope(product->node(), layer);
  return product;
}

std::size_t add_observer(Model& model, std::size_t like, torch::jit::Module module) {
  ir::ObserverEntry entry = model.observers[like];
  entry.name = ir::scaled_name(entry.name);
  entry.module = std::move(module);
  entry.result.reset();
  model.observers.push_back(std::move(entry));
  return model.observers.size() - 1;
}

void scale_parameters(Model& model, Node* layer, const match::Equalizable& kind,
                      const ChannelScales& scales) {
  if (!scales.input.defined() && !scales.output.defined()) return;
  at::Tensor weight = match::weight_of(model, layer, kind);
  if (scales.input.defined()) weight = weight * at::reciprocal(along_columns(scales.input, weight));
  if (scales.output.defined()) weight = weight * along_first_axis(scales.output, weight.dim());
  if (kind.weight != nullptr) {
    set_functional_parameters(model, layer, kind, weight, scales.output);
    return;
  }
  ir::Weighted& weighted = *ir::weighted_of(ir::call_of(model, layer));
  if (scales.input.defined()) scale_input_statistics(weighted, scales.input);
  if (scales.output.defined()) weighted.seen.output = scaled(weighted.seen.output, scales.output);
  // As PyTorch's new parameters: matmul chooses its algorithm by this flag, and the last bit with it.
  weighted.weight = weight.set_requires_grad(true);
  if (weighted.bias.defined() && scales.output.defined())
    weighted.bias = (weighted.bias * scales.output).set_requires_grad(true);
}

void scale_module(Model& model, Node* layer, const ChannelScales& scales) {
  const auto dtype = ir::weighted_of(ir::call_of(model, layer))->weight.scalar_type();
  const auto in_dtype = [&](const at::Tensor& scale) { return scale.defined() ? scale.to(dtype) : scale; };
  scale_parameters(model, layer, *match::scalable(model, layer),
                   {.input = in_dtype(scales.input), .output = in_dtype(scales.output)});
}

}  // namespace tsq::passes
