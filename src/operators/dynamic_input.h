#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "ir/graph.h"

namespace tsq::operators {

/// Where the input of an operator was quantized at run time:
///   read = dequantize(quantize_per_tensor_dynamic(value, dtype, reduce_range))
struct DynamicInput {
  ir::Value* value{};
  c10::ScalarType dtype{};
  ir::Value* reduce_range{};
};

/// The operators after `read`, an input of an operator; empty where it is not quantized at run time.
std::optional<DynamicInput> dynamic_input(const ir::Value* read);

}  // namespace tsq::operators
