#include "tuning/fit.h"

#include <algorithm>
#include <cmath>

namespace tsq::tuning {
namespace {

using Row = std::vector<double>;

double dot(std::span<const double> left, std::span<const double> right) {
  double sum = 0;
  for (std::size_t i = 0; i < left.size(); ++i) sum += left[i] * right[i];
  return sum;
}

/// Equations over their sums, with columns between 0 and 1.
struct Scaled {
  std::vector<Row> rows{};
  Row scales{};
};

Scaled scaled(std::span<const Equation> equations) {
  Scaled result{.scales = Row(equations.front().features.size(), 0.0)};
  for (const Equation& equation : equations) {
    Row& row = result.rows.emplace_back(equation.features);
    for (std::size_t j = 0; j < row.size(); ++j) {
      row[j] /= equation.sum;
      result.scales[j] = std::max(result.scales[j], row[j]);
    }
  }
  for (Row& row : result.rows) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] /= result.scales[j] > 0 ? result.scales[j] : 1;
  }
  return result;
}

/// The products of columns, and of columns with the sums, which are 1.
struct Normal {
  std::vector<Row> products{};
  Row sums{};
};

Normal normal_of(const std::vector<Row>& rows, const Row& weights) {
  const std::size_t count = rows.front().size();
  Normal normal{.products = std::vector<Row>(count, Row(count, 0.0)), .sums = Row(count, 0.0)};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      const double weighted = weights[i] * rows[i][j];
      normal.sums[j] += weighted;
      for (std::size_t k = 0; k < count; ++k) normal.products[j][k] += weighted * rows[i][k];
    }
  }
  return normal;
}

/// Coordinate descent from `solution`, which stays at 0 or above.
void descend(const Normal& normal, Row& solution) {
  constexpr int kSweeps = 2000;
  constexpr double kSmallStep = 1e-10;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double largest = 0;
    for (std::size_t j = 0; j < solution.size(); ++j) {
      if (normal.products[j][j] <= 0) continue;
      const double step = (normal.sums[j] - dot(normal.products[j], solution)) / normal.products[j][j];
      const double next = std::max(0.0, solution[j] + step);
      largest = std::max(largest, std::abs(next - solution[j]));
      solution[j] = next;
    }
    if (largest < kSmallStep) return;
  }
}

}  // namespace

std::vector<double> least_relative_errors(std::span<const Equation> equations) {
  if (equations.empty()) return {};
  constexpr int kRounds = 80;
  constexpr double kSmallError = 1e-2;
  constexpr double kLeastPart = 0.05;
  const Scaled system = scaled(equations);
  Row solution(system.scales.size(), 0.0);
  Row weights(system.rows.size(), 1.0);
  for (int round = 0; round < kRounds; ++round) {
    descend(normal_of(system.rows, weights), solution);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double predicted = std::max(kLeastPart, dot(system.rows[i], solution));
      weights[i] = 1 / (std::sqrt(predicted) * std::max(kSmallError, std::abs(predicted - 1)));
    }
  }
  for (std::size_t j = 0; j < solution.size(); ++j) {
    if (system.scales[j] > 0) solution[j] /= system.scales[j];
  }
  return solution;
}

}  // namespace tsq::tuning
