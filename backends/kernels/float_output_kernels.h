#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "backends/kernels/lowering_table.h"
#include "backends/kernels/target.h"

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

/// What a layer does in a call.
struct LayerWork {
  /// Values of its input for each of its output that the kernel would have to get the bytes of.
  double inputs_per_output{};
  int64_t groups{1};
  std::optional<double> outputs{};  ///< values; none before calibration: many
};

/// Whether a layer takes no longer with a kernel that returns float, where `activation` alone reads its
/// output: quantized kernels of activations are slow, and so is reading the bytes of a quantized tensor.
/// Empty: float operators of any kind read it, and what is saved is the dequantize.
bool pays_to_return_float(const Target& target, const FloatOutputKernel& kernel, std::string_view activation,
                          const LayerWork& work);

}  // namespace tsq::kernels
