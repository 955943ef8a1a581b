#include "observers/histogram_search.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsq {
namespace {

/// The widths of one candidate range, in double as PyTorch's Python code has them.
struct Widths {
  double bin;  ///< of a histogram bin
  double dst;  ///< of a quantization level
};

Widths widths_of(const HistogramView& view, int64_t dst_bins, int64_t start_bin, int64_t end_bin) {
  const double bin = (static_cast<double>(view.max_val) - static_cast<double>(view.min_val)) /
                     static_cast<double>(view.histogram.size(0));
  return {bin, bin * static_cast<double>(end_bin - start_bin + 1) / static_cast<double>(dst_bins)};
}

/// The float32 values that PyTorch's tensor-scalar operations see.
struct ErrorConstants {
  float bin_width;
  float dst_width;
  float half_width;
  float half_cubed;
  float middle_norm;  ///< of a level that lies inside a bin, for density 1
  double last_dst_bin;
};

float cube(float value) { return value * value * value; }

ErrorConstants error_constants(const Widths& widths, int64_t dst_bins) {
  const auto half_width = static_cast<float>(widths.dst / 2);
  const float half_cubed = cube(half_width);
  return {static_cast<float>(widths.bin),   static_cast<float>(widths.dst),   half_width, half_cubed,
          (half_cubed + half_cubed) / 3.0F, static_cast<double>(dst_bins - 1)};
}

/// clamp(floor(distance / width), 0, last). The quotient in double is below its nearest integer whenever the
/// exact one is (both operands have 24 bits), so this is the exact floor; torch.div(rounding_mode="floor")
/// returns the same number by way of fmod.
[[gnu::always_inline]] inline float level_of(float distance, double width, double last) {
  const double quotient = static_cast<double>(distance) / width;
  const double positive = quotient > 0.0 ? quotient : 0.0;
  return static_cast<float>(static_cast<int32_t>(positive < last ? positive : last));
}

/// The error of every histogram bin: each line is one tensor operation of _compute_quantization_error, in its
/// order.
[[gnu::always_inline]] inline void bin_errors(const float* __restrict density, float* __restrict norm,
                                              int32_t bins, int32_t start_bin,
                                              const ErrorConstants constants) {
  const auto dst_width = static_cast<double>(constants.dst_width);
  for (int32_t i = 0; i < bins; ++i) {
    const float begin = static_cast<float>(i - start_bin) * constants.bin_width;
    const float end = begin + constants.bin_width;
    const float level_of_begin = level_of(begin, dst_width, constants.last_dst_bin);
    const float level_of_end = level_of(end, dst_width, constants.last_dst_bin);
    const float delta_begin = begin - (level_of_begin + 0.5F) * constants.dst_width;
    const float delta_end = end - (level_of_end * constants.dst_width + constants.half_width);
    const float first =
        density[i] * ((constants.half_cubed - delta_begin * delta_begin * delta_begin) / 3.0F);
    const float middle = (level_of_end - level_of_begin - 1.0F) * (density[i] * constants.middle_norm);
    const float last = density[i] * ((delta_end * delta_end * delta_end + constants.half_cubed) / 3.0F);
    norm[i] = first + middle + last;
  }
}

using BinErrors = void (*)(const float*, float*, int32_t, int32_t, ErrorConstants);

void bin_errors_portable(const float* density, float* norm, int32_t bins, int32_t start_bin,
                         const ErrorConstants constants) {
  bin_errors(density, norm, bins, start_bin, constants);
}

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")]] void bin_errors_avx512(
    const float* density, float* norm, int32_t bins, int32_t start_bin, const ErrorConstants constants) {
  bin_errors(density, norm, bins, start_bin, constants);
}

[[gnu::target("avx2")]] void bin_errors_avx2(const float* density, float* norm, int32_t bins,
                                             int32_t start_bin, const ErrorConstants constants) {
  bin_errors(density, norm, bins, start_bin, constants);
}

BinErrors best_bin_errors() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return bin_errors_avx512;
  }
  return __builtin_cpu_supports("avx2") ? bin_errors_avx2 : bin_errors_portable;
}
#else
BinErrors best_bin_errors() { return bin_errors_portable; }
#endif

/// Whether level_of() is exact and every intermediate value that decides a level is a normal number.
bool loops_are_exact(const HistogramView& view, const Widths& widths, int64_t dst_bins) {
  constexpr int64_t kMostLevels = 1 << 16;
  constexpr int64_t kMostBins = 1 << 20;
  constexpr double kSmallest = std::numeric_limits<float>::min();
  constexpr double kLargest = std::numeric_limits<float>::max() / 4;
  const int64_t bins = view.histogram.size(0);
  return dst_bins <= kMostLevels && bins <= kMostBins && widths.bin > kSmallest && widths.dst > kSmallest &&
         widths.bin * static_cast<double>(bins) < kLargest;
}

/// The error function of one histogram: what does not depend on the candidate is computed once.
class ErrorFunction {
 public:
  ErrorFunction(const HistogramView& view, int64_t dst_bins)
      : view_(view),
        dst_bins_(dst_bins),
        density_(at::div(view.histogram, widths_of(view, dst_bins, 0, 0).bin)),
        norm_(at::empty_like(density_)),
        density_data_(density_.const_data_ptr<float>()),
        norm_data_(norm_.mutable_data_ptr<float>()),
        bin_errors_(best_bin_errors()) {}

  double operator()(int64_t start_bin, int64_t end_bin) {
    const Widths widths = widths_of(view_, dst_bins_, start_bin, end_bin);
    if (widths.dst == 0.0) {
      return 0.0;
    }
    if (!loops_are_exact(view_, widths, dst_bins_)) {
      return quantization_error_by_tensors(view_, dst_bins_, start_bin, end_bin);
    }
    bin_errors_(density_data_, norm_data_, static_cast<int32_t>(density_.size(0)),
                static_cast<int32_t>(start_bin), error_constants(widths, dst_bins_));
    // The order of a float32 sum is ATen's own affair.
    return static_cast<double>(at::sum(norm_).item<float>());
  }

 private:
  const HistogramView& view_;
  int64_t dst_bins_;
  at::Tensor density_;
  at::Tensor norm_;
  const float* density_data_;
  float* norm_data_;
  BinErrors bin_errors_;
};

struct BinRange {
  int64_t start;
  int64_t end;
};

/// The greedy two-sided shrink. `left` and `right` go on from where the last step left them: the quantiles
/// only move inwards, so walking again from the ends of the range, as PyTorch does, finds the same bins.
BinRange shrink(const HistogramView& view, int64_t dst_bins) {
  constexpr double kStep = 1e-5;
  const double total = static_cast<double>(at::sum(view.histogram).item<float>());
  const at::Tensor cumulative = at::cumsum(view.histogram, 0);
  const float* mass = cumulative.const_data_ptr<float>();
  ErrorFunction error(view, dst_bins);

  BinRange range{0, view.histogram.size(0) - 1};
  double alpha = 0.0;
  double beta = 1.0;
  double least_error = std::numeric_limits<double>::infinity();
  int64_t left = range.start;
  int64_t right = range.end;
  while (alpha < beta) {
    const double next_alpha = alpha + kStep;
    const double next_beta = beta - kStep;
    left = std::min(left, range.end);
    right = std::max(right, range.start);
    while (left < range.end && mass[left] < static_cast<float>(next_alpha * total)) {
      ++left;
    }
    while (right > range.start && mass[right] > static_cast<float>(next_beta * total)) {
      --right;
    }
    BinRange next = range;
    if (left - range.start > range.end - right) {
      next.start = left;
      alpha = next_alpha;
    } else {
      next.end = right;
      beta = next_beta;
    }
    if (next.start == range.start && next.end == range.end) {
      continue;
    }
    const double next_error = error(next.start, next.end);
    if (next_error > least_error) {
      break;
    }
    least_error = next_error;
    range = next;
  }
  return range;
}

}  // namespace

double quantization_error(const HistogramView& view, int64_t dst_bins, int64_t start_bin, int64_t end_bin) {
  return ErrorFunction(view, dst_bins)(start_bin, end_bin);
}

double quantization_error_by_tensors(const HistogramView& view, int64_t dst_bins, int64_t start_bin,
                                     int64_t end_bin) {
  const Widths widths = widths_of(view, dst_bins, start_bin, end_bin);
  if (widths.dst == 0.0) {
    return 0.0;
  }
  const int64_t bins = view.histogram.size(0);
  const auto last_level = static_cast<double>(dst_bins - 1);
  const auto norm_of = [](const at::Tensor& begin, const at::Tensor& end, const at::Tensor& density) {
    return density * ((end * end * end - begin * begin * begin) / 3);
  };
  const auto level = [&](const at::Tensor& distance) {
    return at::clamp(at::div(distance, widths.dst, "floor"), 0, last_level);
  };
  const at::Tensor begin = (at::arange(bins) - start_bin) * widths.bin;
  const at::Tensor end = begin + widths.bin;
  const at::Tensor level_of_begin = level(begin);
  const at::Tensor level_of_end = level(end);
  const at::Tensor density = view.histogram / widths.bin;
  const at::Tensor half = at::scalar_tensor(widths.dst / 2, at::kFloat);
  const at::Tensor minus_half = at::scalar_tensor(-widths.dst / 2, at::kFloat);

  at::Tensor norm = at::zeros({bins});
  norm += norm_of(begin - (level_of_begin + 0.5) * widths.dst, at::ones({bins}) * (widths.dst / 2), density);
  norm += (level_of_end - level_of_begin - 1) * norm_of(minus_half, half, density);
  norm += norm_of(minus_half, end - (level_of_end * widths.dst + widths.dst / 2), density);
  return static_cast<double>(norm.sum().item<float>());
}

ClippedRange search_range(const HistogramView& view, int64_t dst_bins) {
  const c10::NoGradGuard no_grad;
  const HistogramView contiguous{view.histogram.contiguous(), view.min_val, view.max_val};
  const auto bins = static_cast<float>(view.histogram.size(0));
  const float bin_width = (view.max_val - view.min_val) / bins;
  // A histogram of one value has no width: every candidate is as good, and the range is that value.
  const BinRange range = view.min_val == view.max_val ? BinRange{0, 0} : shrink(contiguous, dst_bins);
  return {view.min_val + bin_width * static_cast<float>(range.start),
          view.min_val + bin_width * static_cast<float>(range.end + 1)};
}

}  // namespace tsq
