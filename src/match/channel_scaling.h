#pragma once

#include "ir/model.h"
#include "match/equalizable.h"

/// Around which operators channels can be multiplied by factors of their own.
namespace tsq::match {

/// The weight of a linear layer or convolution, module or functional.
at::Tensor weight_of(const ir::Model& model, const ir::Node* layer, const Equalizable& kind);

/// A quantized layer whose weights have a scale a row, perhaps with an addend as its second input; null for
/// others.
const ir::Weighted* equalizable_layer(const ir::Model& model, const ir::Node* node);

/// relu(s · x) is s · relu(x). An upper end would cut what the calibration data did not show of a channel.
[[nodiscard]] bool commutes_with_scaling(const ir::Model& model, const ir::Node* node);

/// PReLU and LeakyReLU, which commute with scaling as well, but make negative values smaller or larger.
[[nodiscard]] bool is_leaky(const ir::Model& model, const ir::Node* node);

/// A batch norm with running statistics and parameters of its own.
[[nodiscard]] bool is_affine_batch_norm(const ir::Model& model, const ir::Node* node);

/// The observer of a layer's output, after clamps that commute with scaling; null where others read the
/// output.
ir::Node* observer_after(const ir::Model& model, const ir::Node* layer);

/// Whether float operators alone read what an observer sees.
[[nodiscard]] bool is_read_in_float(const ir::Model& model, const ir::Node* observer);

}  // namespace tsq::match
