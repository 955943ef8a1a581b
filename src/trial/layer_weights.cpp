#include "trial/layer_weights.h"

#include <ATen/ATen.h>
#include <ATen/native/quantized/PackedParams.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/attribute_name.h"
#include "pipeline/operator_watch.h"
#include "trial/channel_gains.h"

namespace tsq::detail {
namespace {

template <typename Packed>
at::Tensor unpacked(const at::IValue& value) {
  return std::get<0>(value.toCustomClass<Packed>()->unpack());
}

const at::IValue* packed_params(const Captured& op) {
  const auto found = std::ranges::find_if(op.inputs, &at::IValue::isObject);
  return found == op.inputs.end() ? nullptr : &*found;
}

/// The weight of a float operator: what it takes of the model's own after its input. Rows of one number do
/// not tell layers apart.
at::Tensor own_float_weight(const Captured& op) {
  bool is_input = true;
  for (const at::IValue& value : op.inputs) {
    if (!value.isTensor() || !value.toTensor().defined() || std::exchange(is_input, false)) continue;
    const at::Tensor& tensor = value.toTensor();
    const bool has_rows =
        tensor.dim() > 1 && tensor.numel() > tensor.size(0) && at::isFloatingType(tensor.scalar_type());
    if (has_rows && std::ranges::find(op.attributes, memory_of(tensor)) != op.attributes.end()) return tensor;
  }
  return {};
}

const void* identity_of_weight(const Captured& op) {
  return op.weight.defined() ? memory_of(op.inputs.back().toTensor())
                             : static_cast<const void*>(&packed_params(op)->toObjectRef());
}

/// An operator of a layer that has a weight, with the weight.
struct Weighted {
  const Captured* op{};
  at::Tensor weight{};
  const void* identity{};
  bool is_int8{false};
};

std::vector<Weighted> weighted_layers(const std::vector<Captured>& operators) {
  std::vector<Weighted> found;
  for (const Captured& op : operators) {
    if (const at::Tensor weight = int8_weight(op); weight.defined()) {
      found.push_back({&op, weight, identity_of_weight(op), true});
    } else if (const at::Tensor own = own_float_weight(op); own.defined()) {
      found.push_back({&op, own, memory_of(own), false});
    }
  }
  return found;
}

at::Tensor in_double(const at::Tensor& weight) {
  return (weight.is_quantized() ? weight.dequantize() : weight).to(at::kDouble);
}

void rename(Captured& op, const std::unordered_map<const void*, std::string>& paths) {
  if (!op.output.defined()) return;  // LibTorch's optimizer compares constants with each other
  for (const at::IValue& value : op.inputs) {
    const void* identity = nullptr;
    if (value.isTensor()) identity = memory_of(value.toTensor());
    if (value.isObject()) identity = &value.toObjectRef();
    if (const auto path = paths.find(identity); path != paths.end()) op.path = path->second;
  }
  op.layer = attribute_name(op.path);
}

}  // namespace

at::Tensor int8_weight(const Captured& op) {
  if (op.weight.defined()) return op.weight;
  const at::IValue* value = packed_params(op);
  if (value == nullptr) return {};
  const std::string type = value->type()->annotation_str();
  if (type.ends_with("LinearPackedParamsBase")) return unpacked<LinearPackedParamsBase>(*value);
  if (type.ends_with("Conv2dPackedParamsBase")) return unpacked<ConvPackedParamsBase<2>>(*value);
  if (type.ends_with("Conv3dPackedParamsBase")) return unpacked<ConvPackedParamsBase<3>>(*value);
  return {};
}

at::Tensor float_weight(const Captured& op, const at::Tensor& int8) {
  bool is_input = true;
  for (const at::IValue& value : op.inputs) {
    if (!value.isTensor() || !value.toTensor().defined() || std::exchange(is_input, false)) continue;
    const at::Tensor& tensor = value.toTensor();
    if (tensor.dim() > 1 && tensor.numel() == int8.numel() && tensor.size(0) == int8.size(0)) return tensor;
  }
  return {};
}

void LayerPairs::find(const std::vector<Captured>& exact, const std::vector<Captured>& got) {
  // Two weights that agree to this are one: eight bits are good for 30 dB and more, other weights for 0.
  constexpr double kSame = 10;
  const std::vector<Weighted> layers = weighted_layers(got);
  const std::set<std::string> named = layers_in(exact);
  // Layers that stayed float may have kept their names where others have lost them.
  const bool has_int8 = std::ranges::any_of(layers, &Weighted::is_int8);
  if (std::ranges::any_of(layers, [&](const Weighted& layer) {
        return layer.is_int8 == has_int8 && named.contains(layer.op->layer);
      }))
    return;
  std::set<const Captured*> taken;
  const auto pair = [&](const Weighted& layer, double least) {
    if (paths_.contains(layer.identity)) return;
    const at::Tensor weight = in_double(layer.weight);
    for (const Captured& op : exact) {
      const at::Tensor own = taken.contains(&op) ? at::Tensor() : float_weight(op, layer.weight);
      if (!own.defined() || weight_sqnr(weight, in_double(own).reshape(weight.sizes())) < least) continue;
      const std::string& path = op.path.empty() ? layer.op->path : op.path;
      paths_.emplace(layer.identity, path);
      paths_.emplace(memory_of(own), path);
      taken.insert(&op);
      return;
    }
  };
  for (const Weighted& layer : layers) pair(layer, kSame);
  // A weight that is wrong is that of the first layer of its sizes that is left. One in float has its
  // numbers.
  for (const Weighted& layer : layers) {
    if (layer.is_int8) pair(layer, -std::numeric_limits<double>::infinity());
  }
}

void LayerPairs::name(std::vector<Captured>& exact, std::vector<Captured>& got) {
  if (!std::exchange(has_looked_, true)) find(exact, got);
  if (paths_.empty()) return;
  for (Captured& op : exact) rename(op, paths_);
  for (Captured& op : got) {
    op.path.clear();  // what is not paired might have the name of another layer by chance
    rename(op, paths_);
  }
}

}  // namespace tsq::detail
