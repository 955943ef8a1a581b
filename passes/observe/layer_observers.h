#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/model.h"
#include "operators/traits.h"

/// What the passes share that put observers around layers.
namespace tsq::passes {

/// The weight of a layer that calibration finds the range of the input for; null for others, and for
/// transposed convolutions, whose taps do not all meet every output.
const ir::Weighted* observed_layer(const ir::Model& model, const ir::Node* node);

/// Whether a node is the root of an observed pattern.
[[nodiscard]] bool is_observed_root(const ir::Model& model, const ir::Node* node);

/// A new entry of Model::observers, and its index. `layer`: what the observer belongs to, for messages.
std::size_t new_observer(ir::Model& model, ObserverSpec spec, std::string layer,
                         const char* name = "activation_post_process");

/// A node that observes `input`, in front of `before`.
ir::Node* insert_observer_before(ir::Model& model, ir::Value* input, std::size_t observer, ir::Node* before);

/// A node that observes `input`, and is to be put in front of `layer`: beside the value, or in the layer's
/// own block. A branch may be entered by a part of the values only, whose channels are not those of the rest.
ir::Node* insert_layer_observer(ir::Model& model, ir::Value* input, std::size_t observer, ir::Node* layer);

/// Who reads a value, perhaps after further observers.
std::vector<torch::jit::Use> uses_after_observers(const ir::Value* value);

/// Where the activation saturates that reads what an observer returns, alone but for other observers; empty
/// where there is none.
std::optional<operators::Saturation> activation_after(const ir::Model& model, const ir::Node* observer);

}  // namespace tsq::passes
