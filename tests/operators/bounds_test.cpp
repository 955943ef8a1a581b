// Where operators limit values, saturate, or are steep.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "operators/operator_calls.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace bounds_test {

using namespace calls;

/// The value that a call passes as a bound of a clamp; empty where it has none.
std::optional<double> bound_of(const Bound& bound, const Call& call) {
  if (bound.number) return bound.number;
  if (bound.argument.empty()) return std::nullopt;
  const auto index = call.op->schema().argumentIndexWithName(std::string(bound.argument));
  return call.arguments.at(static_cast<std::size_t>(index.value())).toScalar().toDouble();
}

TEST_F(TraitsTest, ClampsLimitTheirOperandToTheirBounds) {
  for (const OperatorTraits& row :
       rows_where([](const OperatorTraits& each) { return each.clamp.has_value(); })) {
    SCOPED_TRACE(row.name);
    const Tensor x = operand(row);
    const Call call = call_of(row.name, {x});
    const auto lowest = bound_of(row.clamp->lowest, call);
    const auto highest = bound_of(row.clamp->highest, call);
    EXPECT_TRUE(lowest || highest);
    Tensor expected = x;
    if (lowest) expected = expected.clamp_min(*lowest);
    if (highest) expected = expected.clamp_max(*highest);
    EXPECT_TRUE(at::equal(result(row, {x}), expected));
  }
}

TEST_F(TraitsTest, SaturatingOperatorsDoNotTellValuesOutsideOfTheirBoundsApart) {
  for (const OperatorTraits& row :
       rows_where([](const OperatorTraits& each) { return each.saturates.has_value(); })) {
    const auto check = [&](double bound, double outwards) {
      const Tensor outside = bound + outwards * at::rand({2, 4, 6, 8}) * 100;
      const Tensor at_bound = result(row, {at::full({1}, bound)});
      EXPECT_TRUE(result(row, {outside}).eq(at_bound).all().item<bool>()) << row.name << " " << bound;
      EXPECT_FALSE(at::equal(result(row, {at::full({1}, bound - outwards * 0.01)}), at_bound)) << row.name;
    };
    if (row.saturates->lowest) check(*row.saturates->lowest, -1);
    if (row.saturates->highest) check(*row.saturates->highest, 1);
  }
}

/// The slope of an operator in one of its operands, the others being one, over a wide range and close to what
/// limits where functions are defined.
Tensor slopes(const OperatorTraits& row) {
  const Tensor near = at::pow(10.0, at::linspace(-6, -2, 50, at::kDouble));
  Tensor x = at::cat({near, 1 - near, 1 + near, at::linspace(0.01, 0.99, 500, at::kDouble),
                      at::linspace(1.01, 1000, 2000, at::kDouble)});
  x.set_requires_grad(true);
  Tensors tensors(2, at::ones_like(x).detach());
  tensors[*row.steep_in] = x;
  const Tensor y = result(row, tensors);
  const Tensor slope = torch::autograd::grad({y.sum()}, {x}).front().abs();
  return slope.masked_select(at::isfinite(slope).logical_and(at::isfinite(y)));
}

TEST_F(TraitsTest, SteepOperatorsAreFarSteeperSomewhereThanElsewhere) {
  for (const OperatorTraits& row :
       rows_where([](const OperatorTraits& each) { return each.steep_in.has_value(); })) {
    const Tensor slope = slopes(row);
    EXPECT_GT(slope.max().item<double>(), 100 * slope.median().item<double>()) << row.name;
  }
}

}  // namespace bounds_test
}  // namespace tsq::operators
