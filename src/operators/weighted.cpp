#include "operators/weighted.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/tensor_memory.h"
#include "config/names/observer_classes.h"
#include "config/qscheme.h"
#include "ir/constants.h"
#include "operators/arguments.h"
#include "operators/inlined_graph.h"

namespace tsq::operators {
namespace {

using torch::jit::Module;

bool is_linear(Symbol type) { return type.name == "torch.nn.Linear"; }

std::vector<int64_t> int_list(const c10::IValue& value) {
  if (value.isIntList()) return value.toIntVector();
  if (value.isInt()) return {value.toInt()};
  std::vector<int64_t> result;
  if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) {
      if (element.isInt()) result.push_back(element.toInt());
    }
  }
  return result;
}

at::Tensor tensor_attribute(const Module& module, const std::string& name) {
  const c10::IValue value = module.attr(name, c10::IValue());
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

/// An argument of the convolution: tracing writes one whose padding is a word as an operator of its own.
std::optional<c10::IValue> convolution_constant(const Module& module, const std::string& name) {
  const auto value = module_constant(module, name, c10::aten::_convolution, name);
  return value ? value : module_constant(module, name, c10::aten::_convolution_mode, name);
}

std::optional<std::vector<int64_t>> list_constant(const Module& module, const std::string& name) {
  const auto value = convolution_constant(module, name);
  return value ? std::optional(int_list(*value)) : std::nullopt;
}

/// A traced module has no attribute that tells its padding mode, but a pad before the convolution. False when
/// the two are not what a module with such a mode does.
bool take_traced_padding(const Module& module, ir::Weighted& result) {
  if (module.hasattr("stride")) return true;
  const auto pads = module_constant(module, "padding", c10::aten::pad, "pad");
  if (!pads) return true;
  const auto mode = module_constant(module, "padding_mode", c10::aten::pad, "mode");
  const std::vector<int64_t> sides = int_list(*pads);
  if (!mode || !mode->isString() || sides.size() != 2 * result.padding.size()) return false;
  result.padding_mode = mode->toStringRef();
  for (std::size_t i = 0; i < result.padding.size(); ++i) {
    const std::size_t side = sides.size() - 2 * (i + 1);
    if (sides[side] != sides[side + 1] || result.padding[i] != 0) return false;
    result.padding[i] = sides[side];
  }
  return true;
}

bool are_positive(const std::vector<int64_t>& numbers) {
  return std::ranges::all_of(numbers, [](int64_t number) { return number > 0; });
}

bool has_sound_geometry(const ir::Weighted& weighted) {
  const std::size_t dims = weighted.stride.size();
  const auto is_of_dims = [dims](const std::vector<int64_t>& numbers) { return numbers.size() == dims; };
  return dims > 0 && are_positive(weighted.stride) && are_positive(weighted.dilation) &&
         is_of_dims(weighted.dilation) && is_of_dims(weighted.output_padding) &&
         (is_of_dims(weighted.padding) || !weighted.padding_name.empty());
}

}  // namespace

bool is_sound(Symbol type, const ir::Weighted& weighted) {
  const std::size_t dims = is_linear(type) ? 0 : weighted.stride.size();
  const at::Tensor& weight = weighted.weight;
  if (!holds_numbers(weight) || static_cast<std::size_t>(weight.dim()) != dims + 2) return false;
  if (!is_linear(type) && !has_sound_geometry(weighted)) return false;
  if (weighted.groups < 1 || weight.size(0) % weighted.groups != 0) return false;
  const int64_t outputs = output_channels(type, weighted);
  const at::Tensor& bias = weighted.bias;
  return !bias.defined() || (holds_numbers(bias) && bias.dim() == 1 && bias.size(0) == outputs);
}

int64_t output_channels(Symbol type, const ir::Weighted& weighted) {
  const at::Tensor& weight = weighted.weight;
  return is_transposed(type) ? weight.size(1) * weighted.groups : weight.size(0);
}

bool is_transposed(Symbol type) { return type.name.starts_with("torch.nn.ConvTranspose"); }

ObserverSpec weight_observer(Symbol type, ObserverSpec spec) {
  constexpr int64_t kOutputChannels = 1;
  const ResolvedObserver resolved = resolve(spec);
  if (!is_transposed(type) || !is_per_channel(resolved.qscheme) || resolved.ch_axis == kOutputChannels)
    return spec;
  spec.observer = spec.observer == observer_classes::kPerChannelMinMax
                      ? observer_classes::kMinMax
                      : observer_classes::kMovingAverageMinMax;
  spec.qscheme = is_symmetric(resolved.qscheme) ? c10::kPerTensorSymmetric : c10::kPerTensorAffine;
  spec.ch_axis.reset();
  return spec;
}

bool is_weighted(Symbol type) {
  return is_linear(type) || is_transposed(type) || type.name == "torch.nn.Conv1d" ||
         type.name == "torch.nn.Conv2d" || type.name == "torch.nn.Conv3d";
}

std::optional<c10::IValue> module_constant(const Module& module, const std::string& name, c10::Symbol op,
                                           const std::string& argument) {
  if (module.hasattr(name)) return module.attr(name);
  const auto graph = inlined_graph(module, "forward");
  if (graph == nullptr) return std::nullopt;
  const ir::Node* node = first_of_kind(*graph, op);
  if (node == nullptr)
    node = first_of_kind(*graph, c10::Symbol::fromQualString(std::string(op.toQualString()) + "_"));
  const ir::Value* value = node == nullptr ? nullptr : argument_named(node, argument);
  return value == nullptr ? std::nullopt : ir::constant_value(value);
}

std::optional<ir::Weighted> weighted_parameters(Symbol type, const Module& module) {
  ir::Weighted result{.weight = tensor_attribute(module, "weight"), .bias = tensor_attribute(module, "bias")};
  if (!result.weight.defined()) return std::nullopt;
  result.origin = result.weight;
  if (is_linear(type)) return is_sound(type, result) ? std::optional(result) : std::nullopt;
  const auto stride = list_constant(module, "stride");
  const auto dilation = list_constant(module, "dilation");
  const auto padding = convolution_constant(module, "padding");
  const auto groups = convolution_constant(module, "groups");
  if (!stride || !dilation || !padding || !groups || !groups->isInt()) return std::nullopt;
  result.stride = *stride;
  result.dilation = *dilation;
  result.groups = groups->toInt();
  if (padding->isString()) {
    result.padding_name = padding->toStringRef();
  } else {
    result.padding = int_list(*padding);
  }
  result.output_padding =
      list_constant(module, "output_padding").value_or(std::vector<int64_t>(result.stride.size(), 0));
  if (module.hasattr("padding_mode")) {
    result.padding_mode = module.attr("padding_mode").toStringRef();
  } else if (!take_traced_padding(module, result)) {
    return std::nullopt;
  }
  return is_sound(type, result) ? std::optional(result) : std::nullopt;
}

std::optional<BatchNorm> batch_norm_parameters(const Module& module) {
  BatchNorm result{.weight = tensor_attribute(module, "weight"),
                   .bias = tensor_attribute(module, "bias"),
                   .running_mean = tensor_attribute(module, "running_mean"),
                   .running_var = tensor_attribute(module, "running_var")};
  const auto eps = module_constant(module, "eps", c10::aten::batch_norm, "eps");
  const at::Tensor& mean = result.running_mean;
  const auto is_like_mean = [&](const at::Tensor& tensor) {
    return is_plain(tensor) && tensor.sizes() == mean.sizes();
  };
  const auto is_usable = [&](const at::Tensor& tensor) { return !tensor.defined() || is_like_mean(tensor); };
  if (!holds_numbers(mean) || !is_like_mean(result.running_var) || !is_usable(result.weight) ||
      !is_usable(result.bias) || !eps || !eps->isScalar())
    return std::nullopt;
  result.eps = eps->toScalar().toDouble();
  return result;
}

std::optional<Module> scaled_batch_norm(const Module& module, const at::Tensor& input,
                                        const at::Tensor& output) {
  const auto bn = batch_norm_parameters(module);
  if (!bn || !bn->weight.defined() || !bn->bias.defined()) return std::nullopt;
  Module result = module.deepcopy();
  if (input.defined()) {
    const at::Tensor scale = input.to(bn->running_mean.scalar_type());
    result.setattr("running_mean", bn->running_mean * scale);
    result.setattr("running_var", (bn->running_var + bn->eps) * scale.square() - bn->eps);
  }
  if (output.defined()) {
    const at::Tensor scale = output.to(bn->weight.scalar_type());
    result.setattr("weight", (bn->weight * scale).detach());
    result.setattr("bias", (bn->bias * scale).detach());
  }
  return result;
}

ir::Weighted fold_batch_norm(const ir::Weighted& weighted, const BatchNorm& bn, Symbol type) {
  const at::Tensor bias = weighted.bias.defined() ? weighted.bias : at::zeros_like(bn.running_mean);
  const at::Tensor gamma = bn.weight.defined() ? bn.weight : at::ones_like(bn.running_mean);
  const at::Tensor beta = bn.bias.defined() ? bn.bias : at::zeros_like(bn.running_mean);
  ir::Weighted result = weighted;
  const at::Tensor rsqrt = at::rsqrt(bn.running_var + bn.eps);
  if (is_linear(type)) {
    const at::Tensor scale = gamma * rsqrt;
    result.weight = weighted.weight * scale.unsqueeze(-1);
    result.bias = (bias - bn.running_mean) * scale + beta;
  } else {
    std::vector<int64_t> shape(static_cast<std::size_t>(weighted.weight.dim()), 1);
    at::Tensor scale = gamma * rsqrt;
    if (is_transposed(type) && weighted.groups > 1) {  // [inputs, outputs of the input's group, …]
      shape[0] = weighted.weight.size(0);
      shape[1] = weighted.weight.size(1);
      scale = scale.expand({weighted.groups * shape[1]})
                  .reshape({weighted.groups, shape[1]})
                  .repeat_interleave(shape[0] / weighted.groups, 0);
    } else {
      shape[is_transposed(type) ? 1 : 0] = -1;
    }
    result.weight = weighted.weight * scale.reshape(shape);
    result.bias = (bias - bn.running_mean) * rsqrt * gamma + beta;
  }
  // As PyTorch's new parameters: matmul chooses its algorithm by this flag, and the last bit with it.
  result.weight.set_requires_grad(weighted.weight.requires_grad());
  result.bias.set_requires_grad(bias.requires_grad());
  return result;
}

ir::Weighted fold_batch_norm_before(const ir::Weighted& weighted, const BatchNorm& bn) {
  const at::Tensor gamma = bn.weight.defined() ? bn.weight : at::ones_like(bn.running_mean);
  const at::Tensor beta = bn.bias.defined() ? bn.bias : at::zeros_like(bn.running_mean);
  const at::Tensor factor = (gamma * at::rsqrt(bn.running_var + bn.eps)).detach();
  const at::Tensor shift = beta.detach() - bn.running_mean * factor;
  const int64_t outputs = weighted.weight.size(0);
  const int64_t inputs_per_group = weighted.weight.size(1);
  // [outputs, inputs of its group]: the batch norm's channels that each output reads.
  const auto per_output = [&](const at::Tensor& channels) {
    return channels.reshape({weighted.groups, 1, inputs_per_group})
        .expand({weighted.groups, outputs / weighted.groups, inputs_per_group})
        .reshape({outputs, inputs_per_group});
  };
  std::vector<int64_t> shape{outputs, inputs_per_group};
  shape.resize(static_cast<std::size_t>(weighted.weight.dim()), 1);
  const at::Tensor weight = weighted.weight.detach();
  const at::Tensor moved =
      (weight.reshape({outputs, inputs_per_group, -1}).sum(-1) * per_output(shift)).sum(-1);
  ir::Weighted result = weighted;
  result.weight = weight * per_output(factor).reshape(shape);
  result.bias = weighted.bias.defined() ? weighted.bias.detach() + moved : moved;
  return result;
}

}  // namespace tsq::operators
