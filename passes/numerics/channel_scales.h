#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

#include "ir/model.h"
#include "match/equalizable.h"

/// Scales of channels moved from activations into weights: what equalization and smoothing share.
namespace tsq::passes {

/// The path of a layer: its module's, or that of the module in which a functional is called.
const std::string& layer_path(const ir::Model& model, const ir::Node* layer);

/// mul(x, factors) in front of `before`, one factor a channel along the input's channel axis of `layer`; the
/// factors become an attribute `name`.
ir::Value* multiply_channels(ir::Model& model, ir::Node* before, ir::Value* x, const at::Tensor& factors,
                             const std::string& name, const ir::Node* layer);

/// Appends an observer with the entry of observer `like`, calibrated as `module`; its index.
std::size_t add_observer(ir::Model& model, std::size_t like, torch::jit::Module module);

/// What a layer's input and output channels are multiplied by; undefined: nothing.
struct ChannelScales {
  at::Tensor input{};
  at::Tensor output{};
};
/// Divides the weight by the input's scales, multiplies weight and bias by the output's. A functional gets
/// new attributes, since others may read the old ones.
void scale_parameters(ir::Model& model, ir::Node* layer, const match::Equalizable& kind,
                      const ChannelScales& scales);
/// The same for a layer that is a module, with scales of any dtype.
void scale_module(ir::Model& model, ir::Node* layer, const ChannelScales& scales);

}  // namespace tsq::passes
