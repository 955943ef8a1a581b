// Which of several samples is the longest.
#include <gtest/gtest.h>
#include <torch/script.h>

#include <vector>

#include "io/samples.h"

namespace tsq {
namespace longest_test {

std::size_t longest(const std::vector<Sample>& samples) {
  return static_cast<std::size_t>(&detail::longest(samples) - samples.data());
}

TEST(LongestSample, HasTheMostElementsWhereverTheyAre) {
  const at::Tensor small = torch::zeros({2, 3});
  const at::Tensor large = torch::zeros({2, 9});
  EXPECT_EQ(longest({{small}, {large}, {small}}), 1U);
  EXPECT_EQ(longest({{large}, {large}}), 0U);
  EXPECT_EQ(longest({{large}, {c10::List<at::Tensor>({small, large})}}), 1U);
}

TEST(LongestSample, TakesTheMostStepsOfTensorsOfOneSize) {
  const at::Tensor x = torch::zeros({2, 3});
  EXPECT_EQ(longest({{x, 9}, {x, 40}, {x, 12}}), 1U);
  EXPECT_EQ(longest({{torch::zeros({2, 4}), 1}, {x, 40}}), 0U);
}

}  // namespace longest_test
}  // namespace tsq
