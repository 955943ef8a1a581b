#pragma once

#include <string_view>

#include "backends/lowering_table.h"

/// The kernels of stock LibTorch that multiply in int8 and give float: for layers whose output nobody reads
/// quantized.
namespace tsq::lowering {

struct FloatOutputKernel {
  std::string_view engine;
  std::string_view op;  ///< PyTorch's name of the unfused module
  PostOp post_op;
  std::string_view prepack;
  std::string_view kernel;
  /// Whether it reads the scale and zero point of its input. Others find the range of each input when they
  /// run, from 0 to 255 codes.
  bool reads_qparams;
};
/// Null when the engine has none.
const FloatOutputKernel* float_output_kernel(std::string_view engine, std::string_view op, PostOp post_op);

}  // namespace tsq::lowering
