#pragma once

#include <ATen/core/ivalue.h>

#include <span>
#include <string_view>
#include <vector>

#include "backends/kernels/kernel_work.h"

namespace tsq::kernels {

using Sizes = std::vector<std::int64_t>;

/// What a convolution is made of. `weight`: [outputs, inputs of a group, window…]; of a transposed one
/// [inputs, outputs of a group, window…]. Lists are empty (every number is the default) or have one number
/// for each dimension of the window, or one for all.
struct ConvolutionSizes {
  Sizes input{};
  Sizes output{};
  Sizes weight{};
  Sizes stride{};
  Sizes padding{};
  Sizes dilation{};
  std::int64_t groups{1};
  bool is_transposed{false};
};
[[nodiscard]] KernelWork convolution_work(const ConvolutionSizes& sizes);
/// Rows of `inputs` numbers times a weight.
[[nodiscard]] KernelWork linear_work(double rows, double inputs, double outputs);
/// What a recurrent layer is made of.
struct RecurrentSizes {
  Sizes input{};  ///< [steps, batch, features], or with the batch first; without a batch; of a cell one step
  double hidden{};
  double layers{1};  ///< of both directions
  double values_out{};
};
[[nodiscard]] KernelWork recurrent_work(const RecurrentSizes& sizes);
/// Of an operator over values that has no weight.
[[nodiscard]] KernelWork values_work(std::span<const Sizes> inputs, std::span<const Sizes> outputs);

/// The work of a call out of what it takes and returns. `name` is the operator's, without its overload.
[[nodiscard]] KernelWork work_of_call(std::string_view name, std::span<const c10::IValue> arguments,
                                      std::span<const c10::IValue> results);

}  // namespace tsq::kernels
