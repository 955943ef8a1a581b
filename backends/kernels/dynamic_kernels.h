#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "backends/kernels/lowering_table.h"

/// The kernels of stock LibTorch that read float tensors and quantize them when they run, as a table. Source:
/// DYNAMIC_LOWER_MODULE_MAP, DYNAMIC_LOWER_FUSED_MODULE_MAP and DYNAMIC_LOWER_FUNCTIONAL_MAP of
/// torch/ao/quantization/fx/_lower_to_native_backend.py, and torch/ao/nn/quantized/dynamic.
namespace tsq::kernels {

/// A weighted operator whose input is quantized at run time.
struct DynamicKernel {
  std::string_view op;  ///< PyTorch's name of the unfused module
  PostOp post_op;
  c10::ScalarType weight_dtype;  ///< QInt8, or Half
  std::string_view prepack;
  std::string_view kernel;
  bool takes_reduce_range;
};
/// Null when there is none: no convolution has one. quantized::conv2d_dynamic and its relatives round their
/// result with the range of their input, and keep 2 to 7 dB of it where no input is negative.
const DynamicKernel* dynamic_kernel(std::string_view op, PostOp post_op, c10::ScalarType weight_dtype);

/// A recurrent operator. Layers take their weights as a list (of each layer and direction: input, hidden,
/// their biases) and their kernel a list of cell params; cells take four tensors and their kernel two packed
/// weights and the biases.
struct RecurrentKernel {
  std::string_view op;
  std::string_view kernel;
  bool is_cell;
  bool takes_dtype;
};
/// By the operator's name in aten; null for others.
const RecurrentKernel* recurrent_kernel(std::string_view op);

/// How the weights of a recurrent operator are packed, by their dtype.
struct RecurrentPacking {
  c10::ScalarType weight_dtype;  ///< QInt8, or Half
  std::string_view prepack;
  std::string_view make_cell;
};
/// Null when there is none.
const RecurrentPacking* recurrent_packing(c10::ScalarType weight_dtype);

/// Every row.
std::span<const DynamicKernel> dynamic_kernels();
std::span<const RecurrentKernel> recurrent_kernels();

}  // namespace tsq::kernels
