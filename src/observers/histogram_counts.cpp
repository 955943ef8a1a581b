#include "observers/histogram_counts.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

namespace tsq {
namespace {

constexpr int64_t kBinsAtATime = 256;
constexpr int64_t kCountsPerTask = 65536;

struct Bins {
  float first;  ///< edge
  float width;  ///< of all bins together
  float count;
};

/// histc's own arithmetic (BIN_SELECTION_ALGORITHM LINEAR_INTERPOLATION); the last bin includes its right
/// edge.
[[gnu::always_inline]] inline void find_bins(const float* values, int64_t count, const Bins& bins,
                                             int32_t* found) {
  const auto last = static_cast<int32_t>(bins.count) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const auto bin = static_cast<int32_t>((values[i] - bins.first) * bins.count / bins.width);
    found[i] = bin < last ? bin : last;
  }
}

using FindBins = void (*)(const float*, int64_t, const Bins&, int32_t*);

void find_bins_portable(const float* values, int64_t count, const Bins& bins, int32_t* found) {
  find_bins(values, count, bins, found);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void find_bins_avx2(const float* values, int64_t count, const Bins& bins,
                                            int32_t* found) {
  find_bins(values, count, bins, found);
}

FindBins best_find_bins() { return __builtin_cpu_supports("avx2") ? find_bins_avx2 : find_bins_portable; }
#else
FindBins best_find_bins() { return find_bins_portable; }
#endif

/// Neighbours often fall into one bin: with two sets of counts, one need not wait for the other.
void count(const float* values, int64_t size, const Bins& bins, FindBins find, std::vector<int32_t>& counts) {
  std::array<int32_t, kBinsAtATime> found;
  int32_t* even = counts.data();
  int32_t* odd = even + counts.size() / 2;
  for (int64_t begin = 0; begin < size; begin += kBinsAtATime) {
    const int64_t length = std::min(kBinsAtATime, size - begin);
    find(values + begin, length, bins, found.data());
    for (int64_t i = 0; i + 1 < length; i += 2) {
      ++even[found[i]];
      ++odd[found[i + 1]];
    }
    if (length % 2 != 0) ++even[found[length - 1]];
  }
}

/// The bin of each value among sorted edges: the last edge that is not above it begins the bin. Values come
/// nearly in order.
class BinSearch {
 public:
  BinSearch(const float* edges, int64_t bins) : edges_(edges), last_(bins - 1) {}

  int64_t bin_of(float value) {
    while (bin_ < last_ && edges_[bin_ + 1] <= value) ++bin_;
    while (bin_ > 0 && edges_[bin_] > value) --bin_;
    return bin_;
  }

 private:
  const float* edges_;
  int64_t last_;
  int64_t bin_{0};
};

/// Adds up what falls into one bin after the other; each sum has the order of its values.
class BinSums {
 public:
  explicit BinSums(at::Tensor& sums) : sums_(sums.mutable_data_ptr<float>()), sum_(sums_[0]) {}
  ~BinSums() { sums_[bin_] = sum_; }
  BinSums(const BinSums&) = delete;
  BinSums& operator=(const BinSums&) = delete;

  void add(int64_t bin, float count) {
    if (bin != bin_) {
      sums_[bin_] = sum_;
      bin_ = bin;
      sum_ = sums_[bin];
    }
    sum_ += count;
  }

 private:
  float* sums_;
  int64_t bin_{0};
  float sum_;
};

/// Each bin is kUpsampleRate values in the middle of as many parts of it; `begins` are the parts'.
void add_widened(const at::Tensor& histogram, const float* begins, float half, const float* edges,
                 at::Tensor& widened) {
  const float* counts = histogram.const_data_ptr<float>();
  BinSearch search(edges, histogram.numel());
  BinSums sums(widened);
  for (int64_t i = 0; i < histogram.numel(); ++i) {
    const float share = counts[i] / static_cast<float>(kUpsampleRate);
    if (share == 0) continue;
    for (int64_t j = i * kUpsampleRate; j < (i + 1) * kUpsampleRate; ++j)
      sums.add(search.bin_of(begins[j] + half), share);
  }
}

void add_all(const std::vector<int32_t>& even_and_odd, at::Tensor& histogram) {
  float* sums = histogram.mutable_data_ptr<float>();
  const int64_t bins = histogram.numel();
  const int32_t* even = even_and_odd.data();
  const int32_t* odd = even + bins;
  for (int64_t i = 0; i < bins; ++i) sums[i] += static_cast<float>(even[i] + odd[i]);
}

}  // namespace

void add_counts(const at::Tensor& x, const Extremes& range, at::Tensor& histogram) {
  const auto bins = static_cast<std::size_t>(histogram.numel());
  const Bins of_range{
      .first = range.lowest, .width = range.highest - range.lowest, .count = static_cast<float>(bins)};
  const float* values = x.const_data_ptr<float>();
  const FindBins find = best_find_bins();
  thread_local std::vector<int32_t> all;
  all.assign(2 * bins, 0);
  if (x.numel() <= kCountsPerTask) {
    count(values, x.numel(), of_range, find, all);
    return add_all(all, histogram);
  }
  std::mutex mutex;
  std::vector<int32_t>& sums = all;  // of this thread, whichever adds to them
  at::parallel_for(0, x.numel(), kCountsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> own(2 * bins);
    count(values + begin, end - begin, of_range, find, own);
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
  });
  add_all(sums, histogram);
}

at::Tensor widened_counts(const at::Tensor& histogram, const Extremes& range, const Extremes& wider) {
  const int64_t bins = histogram.numel();
  const int64_t fine_bins = bins * kUpsampleRate;
  const float half = 0.5F * ((range.highest - range.lowest) / static_cast<float>(fine_bins));
  const at::Tensor begins = at::linspace(range.lowest, range.highest, fine_bins + 1, at::kFloat);
  const at::Tensor edges = at::linspace(wider.lowest, wider.highest, bins + 1, at::kFloat);
  const float* edge = edges.const_data_ptr<float>();
  // A range of a few float32 numbers may have edges that rounding has put out of order.
  if (!std::is_sorted(edge, edge + bins + 1)) {
    const at::Tensor found =
        at::bucketize(begins.slice(0, 0, fine_bins) + half, edges, false, /*right=*/true);
    return at::bincount(at::clamp(found - 1, 0, bins - 1),
                        at::repeat_interleave(histogram / kUpsampleRate, kUpsampleRate), bins);
  }
  at::Tensor widened = at::zeros({bins}, at::kFloat);
  add_widened(histogram, begins.const_data_ptr<float>(), half, edge, widened);
  return widened;
}

}  // namespace tsq
