#pragma once

#include <dnnl.hpp>
#include <optional>
#include <vector>

#include "runtime/primitives/compilation.h"

/// What a weighted primitive does to its sums before it rounds them: post-ops and requantization in one list.
namespace tsq::runtime {

/// How a primitive sees its output: an image with channels, rows and columns, or matrices without channels.
enum class Form : std::uint8_t { Image, Rows, Matrices };

struct EpilogueOptions {
  bool scaled = true;   ///< the sums can be divided by a unit before the first post-op, through their scales
  bool shifted = true;  ///< and increased by an offset, through the bias
  double unit = 1;      ///< what a sum of 1 stands for, unless it is scaled
  Form form = Form::Image;
  bool spread = true;  ///< operands that broadcast are spread out, unless they are one number or per channel
};

struct Epilogue {
  double unit = 1;
  double offset = 0;
  dnnl::post_ops post_ops{};
  std::vector<Operand> operands{};
  std::optional<View> overwritten{};  ///< the residual that the output is added to in place
};

/// The epilogue of the current operation, which writes to `output`. `inputs` must not be overwritten.
Epilogue plan_epilogue(Compilation& compilation, const View& output, std::span<const View> inputs,
                       const EpilogueOptions& options);

/// `output`, or the residual's memory if the epilogue adds to it in place.
View placed(Compilation& compilation, const View& output, const Epilogue& epilogue);

/// Scratchpad of the caller, and these post-ops.
dnnl::primitive_attr attributes_with(const dnnl::post_ops& post_ops);

/// Appends one function.
void append_function(dnnl::post_ops& post_ops, const PostOp& post_op);

/// The same function in double precision.
double function_of(const PostOp& post_op, double x);

/// Relu and clamp as bounds of what is written.
void narrow(Rounding& to, const View& output, const std::vector<PostOp>& post_ops);

/// The algorithm of a function, and its numbers.
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha;
  float beta;
};
Eltwise eltwise_of(const PostOp& post_op);

}  // namespace tsq::runtime
