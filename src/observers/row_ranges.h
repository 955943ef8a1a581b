#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tsq {

struct RowRanges {
  at::Tensor min_val;  ///< float32, shape [rows]
  at::Tensor max_val;
};

/// Smallest and largest value of each row of a contiguous float32 matrix: the values of at::aminmax(rows, 1)
/// at memory speed; only which zero is returned for a row that holds +0 and -0 may differ. Empty when a row
/// holds NaN.
std::optional<RowRanges> row_ranges(const at::Tensor& rows);

}  // namespace tsq
