#include "observers/histogram_search.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace histogram_search_test {

using tsq::HistogramView;

HistogramView histogram_of(const at::Tensor& values, int64_t bins) {
  const float low = values.min().item<float>();
  const float high = values.max().item<float>();
  return {at::histc(values, bins, low, high), low, high};
}

/// M-14, M-15: thousands of candidates of histograms of all magnitudes.
TEST(QuantizationError, LoopsGiveTheBitsOfTheTensorOperations) {
  at::manual_seed(1);
  std::mt19937 random(1);
  for (int i = 0; i < 1500; ++i) {
    const int64_t bins = std::array<int64_t, 5>{2048, 2048, 1000, 77, 128}[i % 5];
    const int64_t levels = std::array<int64_t, 3>{256, 65536, 16}[i % 3];
    const double magnitude = std::pow(10.0, std::uniform_real_distribution<double>(-8, 10)(random));
    const double offset = i % 4 == 0 ? magnitude * 3 : 0.0;
    const HistogramView view = histogram_of(at::randn({3000}) * magnitude + offset, bins);
    std::uniform_int_distribution<int64_t> bin(0, bins - 1);
    const auto [start, end] = std::minmax({bin(random), bin(random)});
    const double loops = tsq::quantization_error(view, levels, start, end);
    const double tensors = tsq::quantization_error_by_tensors(view, levels, start, end);
    ASSERT_EQ(std::bit_cast<int64_t>(loops), std::bit_cast<int64_t>(tensors))
        << "bins " << bins << " levels " << levels << " from " << start << " to " << end << " of "
        << view.min_val << " .. " << view.max_val << ": " << loops << " and " << tensors;
  }
}

/// The edges of histogram bins fall on edges of levels: where a quotient just below an integer must not be
/// rounded up.
TEST(QuantizationError, LevelsThatAreWholeBinsKeepTheirBits) {
  at::manual_seed(2);
  for (const float high : {1.0F, 0.1F, 2.55F, 6.0F, 1e-3F, 3.3333333F}) {
    for (int64_t end = 255; end < 2048; end += 256) {
      const HistogramView view{at::randint(0, 1000, {2048}).to(at::kFloat), 0.0F, high};
      for (int64_t start = 0; start < end; start += 256) {
        EXPECT_EQ(tsq::quantization_error(view, 256, start, end),
                  tsq::quantization_error_by_tensors(view, 256, start, end));
      }
    }
  }
}

TEST(SearchRange, OfOneValueIsThatValue) {
  const tsq::ClippedRange range = tsq::search_range({at::ones({2048}), 3.5F, 3.5F}, 256);
  EXPECT_EQ(range.min_val, 3.5F);
  EXPECT_EQ(range.max_val, 3.5F);
}

TEST(SearchRange, CutsAnOutlierOff) {
  at::manual_seed(3);
  at::Tensor values = at::randn({1000000});
  values[17] = 20.0;
  const tsq::ClippedRange range = tsq::search_range(histogram_of(values, 2048), 256);
  EXPECT_LT(range.max_val, 10.0F);
  EXPECT_GT(range.max_val, 1.0F);
}

}  // namespace histogram_search_test
