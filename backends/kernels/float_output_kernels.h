#pragma once

#include <span>
#include <string_view>

#include "backends/kernels/lowering_table.h"

/// The kernels of stock LibTorch that multiply in int8 and return float: for layers whose output nobody reads
/// quantized, or that what reads it rounds once more.
namespace tsq::kernels {

/// How a kernel gets the codes of its input, and what it returns.
enum class Form {
  Float,       ///< a float tensor; to be quantized, with scale and zero point
  FloatRange,  ///< a float tensor alone: it finds the range of each, from 0 to 255 codes
  Bytes        ///< a tensor of codes, its scale and its zero point
};

struct FloatOutputKernel {
  std::string_view engine;
  std::string_view op;  ///< PyTorch's name of the unfused module
  PostOp post_op;
  std::string_view prepack;
  std::string_view kernel;
  Form reads;
};
/// Null when the engine has none.
const FloatOutputKernel* float_output_kernel(std::string_view engine, std::string_view op, PostOp post_op);

/// Every row.
std::span<const FloatOutputKernel> float_output_kernels();

/// What the kernels that read bytes do besides, by PyTorch's name of an activation's module or function and
/// the kernel: "hardswish"; empty where they do not.
std::string_view pointwise_post_op(std::string_view activation, std::string_view kernel);

}  // namespace tsq::kernels
