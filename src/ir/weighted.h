#pragma once

#include <ATen/core/Tensor.h>
#include <tsq/observer.h>
#include <tsq/plan.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/layer_statistics.h"

namespace tsq::ir {

using tsq::PaddingFold;

/// The parameters of a convolution, transposed convolution or linear layer, out of the module that held them.
struct Weighted {
  at::Tensor weight{};
  at::Tensor bias{};  ///< undefined: none
  std::vector<int64_t> stride{};
  std::vector<int64_t> padding{};
  std::vector<int64_t> output_padding{};
  std::vector<int64_t> dilation{};
  int64_t groups{1};
  std::string padding_mode{
      "zeros"};                ///< "zeros" and "constant" pad inside the kernel, others by F.pad before it
  std::string padding_name{};  ///< "same" or "valid" where padding was given as a word
  std::optional<QParams> weight_qparams{};  ///< set when it has become a reference module
  std::optional<PaddingFold> fold{};        ///< set by place_padding, done by fold_padding
  LayerStatistics seen{};
  int64_t group_size{0};  ///< columns with a scale of their own: scale and zero point are [rows, groups]
  /// Out of a frozen file, which does not say of a weight that it is a parameter. LibTorch chooses the
  /// algorithm of a linear layer by that: during calibration it is one, as in the file before freezing.
  bool was_frozen{false};
  /// The tensor of the user's file that the weight was made of: calls with the same one are of one layer.
  /// Undefined: the weight itself.
  at::Tensor origin{};
};

/// The tensor of the user's file that a weight was made of.
inline const at::Tensor& origin_of(const Weighted& weighted) {
  return weighted.origin.defined() ? weighted.origin : weighted.weight;
}

}  // namespace tsq::ir
