#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

#include "ir/graph_module.h"
#include "match/equalizable.h"

/// Scales of channels moved from activations into weights: what equalization and smoothing share.
namespace tsq::passes {

/// `values` in the shape of a tensor of `dimensions` axes, of which `axis` counts the channels.
at::Tensor along_axis(const at::Tensor& values, int64_t dimensions, int64_t axis);

/// The path of a layer: its module's, or that of the module in which a functional is called.
const std::string& layer_path(const ir::GraphModule& gm, const ir::Node* layer);

/// The weight of a linear layer or convolution, module or functional.
at::Tensor weight_of(const ir::GraphModule& gm, const ir::Node* layer, const match::Equalizable& kind);

/// mul(x, factors), one factor a channel along the input's channel axis of `kind`, inserted at the insertion
/// point; the factors become an attribute `name`.
ir::Value* multiply_channels(ir::GraphModule& gm, ir::Value* x, const at::Tensor& factors,
                             const std::string& name, const match::Equalizable& kind, const ir::Node* layer);

/// Appends an observer with the entry of observer `like`, calibrated as `module`; its index.
std::size_t add_observer(ir::GraphModule& gm, std::vector<torch::jit::Module>& observers, std::size_t like,
                         torch::jit::Module module);

/// What a layer's input and output channels are multiplied by; undefined: nothing.
struct ChannelScales {
  at::Tensor input{};
  at::Tensor output{};
};
/// Divides the weight by the input's scales, multiplies weight and bias by the output's. A functional gets
/// new attributes, since others may read the old ones.
void scale_parameters(ir::GraphModule& gm, std::vector<torch::jit::Module>& observers, ir::Node* layer,
                      const match::Equalizable& kind, const ChannelScales& scales);
/// The same for a layer that is a module, with scales of any dtype.
void scale_module(ir::GraphModule& gm, ir::Node* layer, const ChannelScales& scales);

}  // namespace tsq::passes
