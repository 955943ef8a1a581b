#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// A way to round the input of a layer: code = x · factors / scale + zero_point, cut off outside of [lowest,
/// highest]. Of a channel axis that comes before as many dimensions as the layer has strides.
struct InputRounding {
  at::Tensor factors{};  ///< one a channel
  double scale{1};
  int64_t zero_point{};
  int64_t lowest{};
  int64_t highest{};
};

/// A layer whose channels do not mix, and the ways to round what it reads.
struct RoundedInput {
  ir::Node* layer{};
  InputRounding now{};
  /// Ways that follow from the smallest and largest value of each channel.
  std::function<std::vector<InputRounding>(const at::Tensor& min, const at::Tensor& max)> ways{};
};

/// What rounding its input adds to the squares of a layer's outputs, for each way, divided by what it adds
/// now: of values that were not among those that the ranges were found with. Each item of the samples is
/// rounded with the extremes of all the others. Empty for layers that saw fewer than two items.
std::vector<std::vector<double>> held_back_noise(const ir::Model& model,
                                                 const std::vector<RoundedInput>& inputs,
                                                 const PassContext& context);

}  // namespace tsq::passes
