#pragma once

#include <optional>

#include "ir/model.h"

namespace tsq::passes {

/// A weight as the packing operators of registered rows want it.
struct WeightToPack {
  at::Tensor quantized{};
  at::Tensor bias{};     ///< undefined: none
  ir::Weighted layer{};  ///< strides and so on; the defaults for a reference module of the user's
};

/// The rounded weight of an operator of a reference graph; empty where it has none, or none that is known
/// before the model runs.
[[nodiscard]] std::optional<WeightToPack> weight_to_pack(const ir::Model& model, const ir::Node* op);

}  // namespace tsq::passes
