#pragma once

#include <ATen/core/Tensor.h>

namespace tsq::ir {

/// What round_weights has chosen for a layer: a reference's file has it in the place of the products of its
/// inputs, which are larger.
struct LearnedRounding {
  at::Tensor codes{};   ///< of bytes, [groups, rows, columns]
  at::Tensor excess{};  ///< [rows], by which the codes' errors raise the layer's outputs
};

}  // namespace tsq::ir
