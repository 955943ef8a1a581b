#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace tsq::detail {

/// The row of a table for 1, 2, … degrees of freedom; the normal distribution's after its end.
template <std::size_t N>
constexpr double quantile(const std::array<double, N>& rows, double normal, std::size_t degrees) {
  return degrees <= N ? rows[std::max<std::size_t>(degrees, 1) - 1] : normal;
}

/// The one-sided 95 % quantile of Student's distribution with `degrees` degrees of freedom, at least 1.
constexpr double student_95(std::size_t degrees) {
  constexpr std::array kQuantiles{6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
                                  1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
                                  1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697};
  return quantile(kQuantiles, /*normal=*/1.645, degrees);
}

/// The one-sided 99 % quantile.
constexpr double student_99(std::size_t degrees) {
  constexpr std::array kQuantiles{31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764,
                                  2.718,  2.681, 2.650, 2.624, 2.602, 2.583, 2.567, 2.552, 2.539, 2.528,
                                  2.518,  2.508, 2.500, 2.492, 2.485, 2.479, 2.473, 2.467, 2.462, 2.457};
  return quantile(kQuantiles, /*normal=*/2.326, degrees);
}

/// The one-sided 97.5 % quantile: half of a two-sided 95 % interval.
constexpr double student_975(std::size_t degrees) {
  constexpr std::array kQuantiles{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                  2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                  2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  return quantile(kQuantiles, /*normal=*/1.960, degrees);
}

}  // namespace tsq::detail
