#pragma once

#include "ir/model.h"

/// Roundings of the calibrated graph, where an observer stands for the quantize and dequantize that convert
/// puts in its place. Once drop_idle_observers has run, each does, but for those that equalize and smooth put
/// in: they look at channels, and stand between a layer and the observer of its input.
namespace tsq::operators {

/// Whether an observer looks at channels alone, for equalization or smoothing, and rounds nothing.
[[nodiscard]] bool is_channel_observer(const ir::Model& model, const ir::Node* node);
/// What such observers look at; the value itself after other nodes.
[[nodiscard]] ir::Value* before_channel_observers(const ir::Model& model, ir::Value* value);

/// Whether a node rounds a value to bytes by one scale that calibration finds: whether it becomes an
/// aten::quantize_per_tensor.
[[nodiscard]] bool is_static_rounding(const ir::Model& model, const ir::Node* node);

/// Whether a node rounds a value by a range that is found when the model runs.
[[nodiscard]] bool is_dynamic_rounding(const ir::Model& model, const ir::Node* node);

}  // namespace tsq::operators
