#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tsq::tuning {

/// One measurement: what each coefficient is multiplied by, and the sum that was measured, above 0.
struct Equation {
  std::vector<double> features{};
  double sum{1};
};

/// The coefficients, none below 0, for which the sum of |predicted - sum| / sqrt(predicted * sum) is least:
/// twice as much counts as half. By least squares whose weights are the inverse of the errors before
/// (Schlossmacher, "An Iterative Technique for Absolute Deviations Curve Fitting", 1973), each solved
/// coordinate by coordinate.
std::vector<double> least_relative_errors(std::span<const Equation> equations);

}  // namespace tsq::tuning
