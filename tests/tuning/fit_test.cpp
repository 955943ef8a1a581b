// Coefficients that are known before are found again.
#include "tuning/fit.h"

#include <gmock/gmock.h>

#include <random>

namespace tsq::tuning {
namespace fit_test {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;

/// Sums of features of several orders of magnitude, each off by a factor of up to `scatter`.
std::vector<Equation> made_up(const std::vector<double>& coefficients, double scatter) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(0, 6);
  std::uniform_real_distribution<double> off(-scatter, scatter);
  std::vector<Equation> equations;
  for (int i = 0; i < 300; ++i) {
    Equation equation{.features = {1}, .sum = coefficients.front()};
    for (std::size_t j = 1; j < coefficients.size(); ++j) {
      equation.features.push_back(std::pow(10, exponent(random)));
      equation.sum += coefficients[j] * equation.features.back();
    }
    equation.sum *= 1 + off(random);
    equations.push_back(equation);
  }
  return equations;
}

TEST(Fit, FindsCoefficientsOfExactSums) {
  EXPECT_THAT(least_relative_errors(made_up({5000, 0.02, 0.3}, 0)),
              ElementsAre(DoubleNear(5000, 5), DoubleNear(0.02, 2e-5), DoubleNear(0.3, 3e-4)));
}

TEST(Fit, AFewWrongSumsMoveNothing) {
  std::vector<Equation> equations = made_up({5000, 0.02, 0.3}, 0);
  for (std::size_t i = 0; i < equations.size(); i += 10) equations[i].sum *= 20;
  EXPECT_THAT(least_relative_errors(equations),
              ElementsAre(DoubleNear(5000, 50), DoubleNear(0.02, 2e-4), DoubleNear(0.3, 3e-3)));
}

TEST(Fit, NoCoefficientIsBelowZero) {
  std::vector<Equation> equations;
  for (int i = 1; i < 50; ++i) equations.push_back({.features = {1, 1.0 * i}, .sum = 100.0 - i});
  EXPECT_THAT(least_relative_errors(equations), Each(Ge(0)));
}

TEST(Fit, AFeatureThatNothingHasGetsNoTime) {
  std::vector<Equation> equations = made_up({100, 1}, 0);
  for (Equation& equation : equations) equation.features.push_back(0);
  EXPECT_EQ(least_relative_errors(equations).back(), 0);
}

TEST(Fit, TwiceAsMuchCountsAsHalf) {
  const std::vector<Equation> equations{
      {.features = {1}, .sum = 50}, {.features = {1}, .sum = 100}, {.features = {1}, .sum = 200}};
  EXPECT_THAT(least_relative_errors(equations), ElementsAre(DoubleNear(100, 1)));
}

}  // namespace fit_test
}  // namespace tsq::tuning
