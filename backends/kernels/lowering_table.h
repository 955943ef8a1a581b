#pragma once

#include <tsq/pattern.h>

#include <optional>
#include <span>
#include <string_view>

/// The kernels of stock LibTorch, as a table. Source: the maps of
/// torch/ao/quantization/fx/_lower_to_native_backend.py.
namespace tsq::kernels {

/// A weighted operator: a module class or functional, its packing operator and its kernel. `post_op` is what
/// its kernel does besides.
enum class PostOp { None, ReLU, LeakyReLU, Tanh, Add, AddReLU };
struct WeightedKernel {
  std::string_view op;
  PostOp post_op;
  std::string_view prepack;
  std::string_view kernel;
};
/// The kernel of an operator (PyTorch's name of the unfused module or function) with a post-op; null when
/// there is none.
const WeightedKernel* weighted_kernel(std::string_view op, PostOp post_op);
/// What a fused class does after its root: "torch.ao.nn.intrinsic.ConvReLU2d" → ReLU.
PostOp post_op_of(std::string_view fused_class);

/// The post-op that an activation is after a weighted functional, by PyTorch's name of its module or
/// function; None for others.
PostOp activation_post_op(std::string_view activation);

/// Two-tensor operators.
struct BinaryKernel {
  std::string_view op;
  std::string_view kernel;
  std::string_view relu_kernel;  ///< empty: none
};
const BinaryKernel* binary_kernel(std::string_view op);

/// How an operator that reads one quantized tensor runs on it.
enum class Unary {
  SameOp,    ///< the operator itself, on the quantized tensor
  Identity,  ///< nothing (dropout in eval mode)
  Kernel,    ///< `kernel`, with the output's scale and zero point; see the argument builders of the lowering
             ///< pass
};
struct UnaryKernel {
  std::string_view op;
  Unary how;
  std::string_view kernel;
};
const UnaryKernel* unary_kernel(const Symbol& op);

/// The kernel of torch.cat that brings tensors of several ranges to one.
inline constexpr std::string_view kConcatenation = "quantized::cat";

/// Every row with a kernel of its own.
std::span<const WeightedKernel> weighted_kernels();
std::span<const BinaryKernel> binary_kernels();
std::span<const UnaryKernel> unary_kernels();
/// The operators that run themselves on quantized tensors.
std::span<const std::string_view> same_operators();

}  // namespace tsq::kernels
