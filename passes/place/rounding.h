#pragma once

#include "passes/context/pass_context.h"

/// Questions of the calibrated graph, where an observer stands for the quantize and dequantize that convert
/// puts in its place. Once drop_idle_observers has run, each does, but for those that equalize and smooth put
/// in: they look at channels, and stand between a layer and the observer of its input.
namespace tsq::passes {

/// Whether an observer looks at channels alone, for equalization or smoothing, and rounds nothing.
[[nodiscard]] bool is_channel_observer(const ir::Model& model, const ir::Node* node);
/// What such observers look at; the value itself after other nodes.
[[nodiscard]] ir::Value* before_channel_observers(const ir::Model& model, ir::Value* value);

/// Whether convert makes a rounding of an observer: to float16, to bytes by a scale that calibration finds,
/// or to bytes by one that is found when the model runs.
[[nodiscard]] bool becomes_rounding(const ir::ObserverEntry& observer);

/// Whether a node rounds a value to bytes by one scale that calibration finds: whether it becomes an
/// aten::quantize_per_tensor.
[[nodiscard]] bool is_static_rounding(const ir::Model& model, const ir::Node* node);

/// Whether a value is rounded, so that kernels may read its bytes: by an observer, in all branches of an if
/// by the same one, by a standalone module, or outside of the model.
[[nodiscard]] bool is_rounded(const ir::Model& model, const PassContext& context, const ir::Value* value);

/// What a static rounding returns, before it was rounded; the value itself for others.
[[nodiscard]] ir::Value* exact(const ir::Model& model, ir::Value* value);

/// The parameters of a convolution or linear layer that is placed in int8; null for other nodes, and where a
/// reference module of the user's takes the layer's place.
[[nodiscard]] ir::Weighted* int8_layer(ir::Model& model, const PassContext& context, const ir::Node* node);
[[nodiscard]] const ir::Weighted* int8_layer(const ir::Model& model, const PassContext& context,
                                             const ir::Node* node);

/// Whether a node calls F.linear, F.conv* or F.conv_transpose*.
[[nodiscard]] bool is_functional_layer(const ir::Model& model, const ir::Node* node);

/// Whether one of PyTorch's reference modules is to stand for a module of another class than its own: a class
/// of the user's.
[[nodiscard]] bool is_of_another_class(Symbol reference, const ir::ModuleCall& call);

/// Whether the node calls a module whose place a reference module of the user's takes, or one of PyTorch's
/// that is made for another class.
[[nodiscard]] bool has_registered_reference(const ir::Model& model, const PassContext& context,
                                            const ir::Node* node);

}  // namespace tsq::passes
