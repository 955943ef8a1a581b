#pragma once

#include <ATen/ATen.h>

namespace tsq {

/// Where the values of a tensor are; null where nothing is, and of a sparse tensor, whose values are in
/// others.
inline const void* memory_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.const_data_ptr() : nullptr;
}

/// Whether a tensor's values are real numbers in memory: it is not sparse, quantized, complex or of the
/// device "meta".
inline bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_quantized() &&
         !tensor.is_complex() && !tensor.is_meta();
}

/// The same, and there are some.
inline bool holds_numbers(const at::Tensor& tensor) { return is_plain(tensor) && tensor.numel() > 0; }

}  // namespace tsq
