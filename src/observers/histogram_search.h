#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tsq {

/// What a HistogramObserver has seen: `histogram` is float32 of shape [bins] over [min_val, max_val].
struct HistogramView {
  at::Tensor histogram;
  float min_val;
  float max_val;
};

struct ClippedRange {
  float min_val;
  float max_val;
};

/// HistogramObserver._non_linear_param_search: the part of the range that has the least L2 error with
/// `dst_bins` levels (M-14, M-15). The same float32 and float64 roundings as PyTorch's tensor operations,
/// hence the same bits.
ClippedRange search_range(const HistogramView& view, int64_t dst_bins);

/// HistogramObserver._compute_quantization_error of the bins [start_bin, end_bin], by vector loops; exposed
/// for tests.
double quantization_error(const HistogramView& view, int64_t dst_bins, int64_t start_bin, int64_t end_bin);
/// The same by PyTorch's own tensor operations: for ranges whose float32 arithmetic leaves the normal
/// numbers, and what the test of the loops compares with.
double quantization_error_by_tensors(const HistogramView& view, int64_t dst_bins, int64_t start_bin,
                                     int64_t end_bin);

}  // namespace tsq
