#pragma once

#include <ATen/ATen.h>
#include <tsq/sample.h>

namespace tsq::io {

/// Whether a sample has tensors, and none of them an element. A cache that is still empty stands beside
/// tensors that are not; where all are empty, nothing can be learnt.
inline bool has_only_empty_tensors(const Sample& sample) {
  bool has_tensors = false;
  for (const at::IValue& value : sample) {
    at::IValue::HashAliasedIValues parts;
    value.getSubValues(parts);
    for (const at::IValue& part : parts) {
      if (!part.isTensor()) continue;
      if (part.toTensor().numel() != 0) return false;
      has_tensors = true;
    }
  }
  return has_tensors;
}

}  // namespace tsq::io
