#pragma once

#include "operators/functional_weighted.h"
#include "operators/roundings.h"
#include "passes/context/pass_context.h"

/// Questions of the calibrated graph and of what the context says of it; more in operators/roundings.h.
namespace tsq::passes {

using ir::is_in_int8;
using operators::before_channel_observers;
using operators::is_channel_observer;
using operators::is_dynamic_rounding;
using operators::is_functional_layer;
using operators::is_static_rounding;

/// Whether convert makes a rounding of an observer: to float16, to bytes by a scale that calibration finds,
/// or to bytes by one that is found when the model runs.
[[nodiscard]] bool becomes_rounding(const ir::ObserverEntry& observer);

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

/// Whether one of PyTorch's reference modules is to stand for a module of another class than its own: a class
/// of the user's.
[[nodiscard]] bool is_of_another_class(Symbol reference, const ir::ModuleCall& call);

/// Whether the node calls a module whose place a reference module of the user's takes, or one of PyTorch's
/// that is made for another class.
[[nodiscard]] bool has_registered_reference(const ir::Model& model, const PassContext& context,
                                            const ir::Node* node);

}  // namespace tsq::passes
