// What one result has against another.
#include "trial/results.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

namespace tsq::detail {
namespace {

using at::IValue;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::optional<FaultKind> kind_of(const IValue& wanted, const IValue& got, bool free_shapes = false) {
  ErrorSums sums;
  const auto fault = compare_results(wanted, got, free_shapes, sums);
  return fault ? std::optional(fault->kind) : std::nullopt;
}

IValue dict_of(const char* key, const at::Tensor& value) {
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert(key, value);
  return dict;
}

TEST(Results, EqualResultsHaveNoFaultAndNoNoise) {
  ErrorSums sums;
  const IValue result =
      c10::ivalue::Tuple::create({torch::ones({2, 3}), int64_t{4}, IValue(), std::string("s")});
  EXPECT_FALSE(compare_results(result, result, false, sums).has_value());
  EXPECT_TRUE(sums.compared());
  EXPECT_TRUE(std::isinf(sums.sqnr_db()));
}

TEST(Results, SqnrPoolsTheFloatingPointTensorsOfAllPlaces) {
  ErrorSums sums;
  const c10::List<at::Tensor> wanted({torch::full({1}, 3.0), torch::full({1}, 4.0), torch::full({1}, 7)});
  const c10::List<at::Tensor> got({torch::full({1}, 3.0), torch::full({1}, 4.5), torch::full({1}, 9)});
  EXPECT_FALSE(compare_results(wanted, got, false, sums).has_value());
  EXPECT_NEAR(sums.sqnr_db(), 10 * std::log10(25 / 0.25), 1e-9);
}

TEST(Results, ComplexNumbersCountByTheirParts) {
  ErrorSums sums;
  const at::Tensor wanted = torch::complex(torch::ones({1}), torch::zeros({1}));
  const at::Tensor got = torch::complex(torch::ones({1}), torch::full({1}, 0.1));
  EXPECT_FALSE(compare_results(wanted, got, false, sums).has_value());
  EXPECT_NEAR(sums.sqnr_db(), 20, 1e-5);
}

TEST(Results, EachKindOfDifferenceIsNamed) {
  const at::Tensor x = torch::ones({2, 3});
  EXPECT_EQ(kind_of(x, x.to(at::kDouble)), FaultKind::Type);
  EXPECT_EQ(kind_of(x, torch::ones({3, 2})), FaultKind::Shape);
  EXPECT_EQ(kind_of(x, int64_t{1}), FaultKind::Structure);
  EXPECT_EQ(kind_of(x, IValue()), FaultKind::Structure);
  EXPECT_EQ(kind_of(c10::ivalue::Tuple::create({x}), c10::ivalue::Tuple::create({x, x})),
            FaultKind::Structure);
  EXPECT_EQ(kind_of(c10::List<at::Tensor>({x}), c10::List<at::Tensor>({x, x})), FaultKind::Structure);
  EXPECT_EQ(kind_of(dict_of("a", x), dict_of("b", x)), FaultKind::Structure);
  EXPECT_EQ(kind_of(dict_of("a", x), dict_of("a", x.to(at::kHalf))), FaultKind::Type);
  EXPECT_EQ(kind_of(x, torch::full({2, 3}, kInfinity)), FaultKind::NotFinite);
  EXPECT_EQ(kind_of(x, torch::full({2, 3}, std::nanf(""))), FaultKind::NotFinite);
}

TEST(Results, WhatIsNotFiniteInFloatMayBeAnything) {
  const at::Tensor masked = torch::tensor({1.0F, -kInfinity, std::nanf("")});
  EXPECT_EQ(kind_of(masked, torch::tensor({1.0F, -kInfinity, 0.0F})), std::nullopt);
  EXPECT_EQ(kind_of(masked, torch::tensor({1.0F, 5.0F, 0.0F})), std::nullopt);
}

TEST(Results, LengthsThatDependOnValuesMayDifferRanksMayNot) {
  const at::Tensor boxes = torch::ones({3, 4});
  EXPECT_EQ(kind_of(boxes, torch::ones({2, 4}), true), std::nullopt);
  EXPECT_EQ(kind_of(boxes, torch::ones({4}), true), FaultKind::Shape);
  ErrorSums sums;
  EXPECT_FALSE(compare_results(boxes, torch::ones({2, 4}), true, sums).has_value());
  EXPECT_EQ(sums.different_shapes, 1U);
  EXPECT_FALSE(sums.compared());
}

}  // namespace
}  // namespace tsq::detail
