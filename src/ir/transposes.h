#pragma once

#include <algorithm>

#include "ir/weighted.h"

namespace tsq::ir {

/// Whether the weights of two layers are one matrix of the user's file, which one of them reads transposed.
inline bool are_transposes(const Weighted& a, const Weighted& b) {
  const at::Tensor& one = origin_of(a);
  const at::Tensor& other = origin_of(b);
  return one.dim() == 2 && other.dim() == 2 && one.const_data_ptr() == other.const_data_ptr() &&
         one.scalar_type() == other.scalar_type() && std::ranges::equal(one.sizes(), other.t().sizes()) &&
         std::ranges::equal(one.strides(), other.t().strides());
}

}  // namespace tsq::ir
