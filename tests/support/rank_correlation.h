#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tsq::testing {

/// Ranks from 0, the mean of equal ones.
inline std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::ranges::sort(sorted);
  std::vector<double> result;
  for (const double value : values) {
    const auto equal = std::ranges::equal_range(sorted, value);
    const auto first = static_cast<double>(equal.begin() - sorted.begin());
    result.push_back(first + static_cast<double>(equal.size() - 1) / 2);
  }
  return result;
}

/// Spearman's, of two series of equal length: from -1 to 1.
inline double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks(a);
  const std::vector<double> y = ranks(b);
  const double mean = static_cast<double>(x.size() - 1) / 2;
  double both = 0;
  double of_x = 0;
  double of_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    both += (x[i] - mean) * (y[i] - mean);
    of_x += (x[i] - mean) * (x[i] - mean);
    of_y += (y[i] - mean) * (y[i] - mean);
  }
  return both / std::sqrt(of_x * of_y);
}

}  // namespace tsq::testing
