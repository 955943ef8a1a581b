// What is known of the functions that elementwise operators are.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "operators/operator_calls.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace functions_test {

using namespace calls;

TEST_F(TraitsTest, ElementwiseOperatorsReadTheValuesInTheSamePlaceAlone) {
  for (const Trait trait : {Elementwise, ElementwiseOfTwo}) {
    for (const OperatorTraits& row : rows_with(trait)) {
      SCOPED_TRACE(row.name);
      Tensors tensors;
      Tensors changed;
      const Tensor stays = at::rand(shape_for(row.name)) > 0.5;
      for (int i = 0; i < 2; ++i) {
        const Tensor values = random_values(row, shape_for(row.name));
        tensors.push_back(as_operand(row, values));
        changed.push_back(as_operand(row, at::where(stays, values, random_values(row, values.sizes()))));
      }
      const Tensor y = as_float(result(row, tensors));
      const Tensor z = as_float(result(row, changed));
      EXPECT_EQ(y.sizes(), stays.sizes());
      EXPECT_TRUE(is_near(y.masked_select(stays), z.masked_select(stays)));
      EXPECT_FALSE(at::equal(y, z));
    }
  }
}

TEST_F(TraitsTest, ElementwiseOperatorsDoTheSameInAllPlaces) {
  for (const Trait trait : {Elementwise, ElementwiseOfTwo}) {
    for (const OperatorTraits& row : rows_with(trait)) {
      const Tensors values{random_values(row, {2, 4, 6, 8}), random_values(row, {2, 4, 6, 8})};
      const Tensor places = at::randperm(values[0].numel());
      Tensors moved;
      Tensors tensors;
      for (const Tensor& each : values) {
        tensors.push_back(as_operand(row, each));
        moved.push_back(as_operand(row, each.flatten().index_select(0, places).view(each.sizes())));
      }
      const Tensor expected = as_float(result(row, tensors)).flatten().index_select(0, places);
      EXPECT_TRUE(is_near(as_float(result(row, moved)).flatten(), expected)) << row.name;
    }
  }
}

TEST_F(TraitsTest, MonotoneOperatorsKeepTheOrderOfNumbers) {
  for (const OperatorTraits& row : rows_with(Monotone)) {
    const Tensor x = std::get<0>(operand(row).flatten().sort());
    const Tensor y = result(row, {x});
    const Tensor steps = y.slice(0, 1) - y.slice(0, 0, -1);
    EXPECT_TRUE(at::isfinite(y).all().item<bool>()) << row.name;
    EXPECT_GE(steps.min().item<double>(), -1e-6) << row.name;
  }
}

TEST_F(TraitsTest, RoundingBeforeAnOperatorThatCommutesWithItDoesNotShowAfterIt) {
  const auto rounded = [](const Tensor& x) {
    return at::quantize_per_tensor(x, kScale, kZeroPoint, at::kQUInt8);
  };
  for (const OperatorTraits& row :
       rows_where([](const OperatorTraits& each) { return commutes_with_rounding(&each); })) {
    SCOPED_TRACE(row.name);
    const Tensors tensors = operands(row);
    const Tensors before{rounded(tensors[0]), rounded(tensors[1])};
    const Tensor expected = rounded(result(row, tensors));
    const Tensor twice = rounded(result(row, {before[0].dequantize(), before[1].dequantize()}));
    EXPECT_TRUE(at::equal(expected.int_repr(), twice.int_repr()));
    Tensor on_bytes;
    try {
      on_bytes = result(row, before);
    } catch (const std::exception&) {
      continue;  // it has no kernel for quantized tensors
    }
    EXPECT_EQ(on_bytes.q_scale(), kScale);
    EXPECT_EQ(on_bytes.q_zero_point(), kZeroPoint);
    EXPECT_TRUE(at::equal(on_bytes.int_repr(), expected.int_repr()));
  }
}

TEST_F(TraitsTest, FactorsPass) {
  for (const OperatorTraits& row : rows_where(
           [](const OperatorTraits& each) { return each.has(PassesFactors) || moves_values(&each); })) {
    Tensors tensors = operands(row);
    const std::size_t factors = row.has(ElementwiseOfTwo) ? 2 : 1;
    const Tensor y = result(row, tensors);
    for (std::size_t i = 0; i < factors; ++i) {
      Tensors scaled = tensors;
      scaled[i] = scaled[i] * -3;
      EXPECT_TRUE(at::allclose(result(row, scaled), y * -3, 1e-4, 1e-4)) << row.name;
    }
  }
}

TEST_F(TraitsTest, WhatKeepsSmallValuesIsSmallNearZeroAndNowhereElse) {
  for (const OperatorTraits& row :
       rows_where([](const OperatorTraits& each) { return each.has(KeepsSmall); })) {
    const Tensor size = at::pow(10.0, at::linspace(-4, 1, 200, at::kDouble));
    for (const double sign : {1.0, -1.0}) {
      const Tensor y = result(row, {size * sign}).abs();
      EXPECT_TRUE(y.gt(size.clamp_max(1).square() / 200).all().item<bool>()) << row.name;
      EXPECT_TRUE((y / size).masked_select(size.le(1)).lt(3).all().item<bool>()) << row.name;
    }
    EXPECT_EQ(result(row, {at::zeros({1})}).item<float>(), 0) << row.name;
  }
}

}  // namespace functions_test
}  // namespace tsq::operators
