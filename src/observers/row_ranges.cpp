#include "observers/row_ranges.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <array>
#include <atomic>
#include <limits>

namespace tsq {
namespace {

/// Independent running minima and maxima: what lets the compiler use vector registers.
constexpr int64_t kLanes = 32;
constexpr int64_t kValuesPerTask = 32768;

struct RowRange {
  float min_val;
  float max_val;
  bool has_nan;
};

[[gnu::always_inline]] inline RowRange range_of_row(const float* values, int64_t count) {
  std::array<float, kLanes> low;
  std::array<float, kLanes> high;
  std::array<int, kLanes> nan{};
  low.fill(std::numeric_limits<float>::infinity());
  high.fill(-std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      low[lane] = value < low[lane] ? value : low[lane];
      high[lane] = value > high[lane] ? value : high[lane];
      nan[lane] |= value != value ? 1 : 0;
    }
  }
  RowRange range{low[0], high[0], false};
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    range.min_val = low[lane] < range.min_val ? low[lane] : range.min_val;
    range.max_val = high[lane] > range.max_val ? high[lane] : range.max_val;
    range.has_nan |= nan[lane] != 0;
  }
  for (; i < count; ++i) {
    range.min_val = values[i] < range.min_val ? values[i] : range.min_val;
    range.max_val = values[i] > range.max_val ? values[i] : range.max_val;
    range.has_nan |= values[i] != values[i];
  }
  return range;
}

using RangeOfRow = RowRange (*)(const float*, int64_t);

RowRange range_of_row_portable(const float* values, int64_t count) { return range_of_row(values, count); }

#if defined(__x86_64__)
[[gnu::target("avx2")]] RowRange range_of_row_avx2(const float* values, int64_t count) {
  return range_of_row(values, count);
}

RangeOfRow best_range_of_row() {
  return __builtin_cpu_supports("avx2") ? range_of_row_avx2 : range_of_row_portable;
}
#else
RangeOfRow best_range_of_row() { return range_of_row_portable; }
#endif

}  // namespace

std::optional<RowRanges> row_ranges(const at::Tensor& rows) {
  const int64_t count = rows.size(1);
  RowRanges ranges{at::empty({rows.size(0)}, at::kFloat), at::empty({rows.size(0)}, at::kFloat)};
  const float* values = rows.const_data_ptr<float>();
  float* min_val = ranges.min_val.mutable_data_ptr<float>();
  float* max_val = ranges.max_val.mutable_data_ptr<float>();
  const RangeOfRow range_of = best_range_of_row();
  std::atomic<bool> has_nan{false};
  at::parallel_for(0, rows.size(0), std::max<int64_t>(1, kValuesPerTask / count),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t row = begin; row < end; ++row) {
                       const RowRange range = range_of(values + row * count, count);
                       min_val[row] = range.min_val;
                       max_val[row] = range.max_val;
                       if (range.has_nan) {
                         has_nan = true;
                       }
                     }
                   });
  return has_nan ? std::nullopt : std::optional(ranges);
}

}  // namespace tsq
