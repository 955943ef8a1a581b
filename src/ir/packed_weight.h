#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "ir/weighted.h"

namespace tsq::ir {

/// What an attribute of packed params was packed of.
struct PackedWeight {
  std::string prepack{};
  Weighted weighted{};
  /// The quantized weight, which other packed params were made of as well; undefined: none were.
  at::Tensor quantized{};
};

}  // namespace tsq::ir
