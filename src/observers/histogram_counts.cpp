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

}  // namespace

at::Tensor histogram_counts(const at::Tensor& x, int64_t bins, float min_val, float max_val) {
  const Bins of_range{.first = min_val, .width = max_val - min_val, .count = static_cast<float>(bins)};
  const float* values = x.const_data_ptr<float>();
  const FindBins find = best_find_bins();
  std::vector<int32_t> all(static_cast<std::size_t>(bins));
  std::mutex mutex;
  at::parallel_for(0, x.numel(), kCountsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> own(2 * static_cast<std::size_t>(bins));
    count(values + begin, end - begin, of_range, find, own);
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += own[i] + own[i + all.size()];
  });
  return at::tensor(all, at::kInt).to(at::kFloat);
}

}  // namespace tsq
