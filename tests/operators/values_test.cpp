// What operators do with values: move, choose, fill, convert or compute them, or not look at them.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "operators/operator_calls.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace values_test {

using namespace calls;

Tensor sorted_bits(const Tensor& tensor) { return std::get<0>(bits(tensor).sort()); }

TEST_F(TraitsTest, WhatRearrangesHasEachValueOnce) {
  for (const OperatorTraits& row : rows_with(Values::Rearranged)) {
    const Tensor x = operand(row);
    EXPECT_TRUE(at::equal(sorted_bits(result(row, {x})), sorted_bits(x))) << row.name;
  }
}

TEST_F(TraitsTest, WhatSelectsDoesSoByPlace) {
  for (const OperatorTraits& row : rows_with(Values::Selected)) {
    const Tensor x = operand(row);
    const Tensor y = result(row, {x});
    EXPECT_TRUE(are_of(y, x)) << row.name;
    EXPECT_TRUE(at::equal(result(row, {-x}), -y)) << row.name;
  }
}

TEST_F(TraitsTest, WhatJoinsHasEachValueOfAllOperandsOnce) {
  for (const OperatorTraits& row : rows_with(Values::Joined)) {
    const Tensors tensors = operands(row);
    EXPECT_TRUE(at::equal(sorted_bits(result(row, tensors)), sorted_bits(at::cat(tensors)))) << row.name;
  }
}

TEST_F(TraitsTest, WhatChoosesHasValuesOfItsOperands) {
  for (const OperatorTraits& row : rows_with(Values::Chosen)) {
    const Tensors tensors = operands(row);
    const Tensor known = row.has(ElementwiseOfTwo) ? at::cat(tensors) : tensors[0];
    const Tensor y = result(row, tensors);
    EXPECT_TRUE(are_of(y, known)) << row.name;
    EXPECT_FALSE(at::equal(result(row, {-tensors[0], -tensors[1]}), -y)) << row.name << " compares nothing";
  }
}

TEST_F(TraitsTest, WhatFillsAddsOneConstant) {
  for (const OperatorTraits& row : rows_with(Values::Filled)) {
    const Tensor x = operand(row);
    const Tensor y = result(row, {x});
    const Tensor added = bits(y).masked_select(at::isin(bits(y), bits(x)).logical_not());
    EXPECT_EQ(std::get<0>(at::_unique(added)).numel(), 1) << row.name;
    EXPECT_LT(added.numel(), y.numel()) << row.name;
  }
}

TEST_F(TraitsTest, WhatConvertsHasTheSameNumbers) {
  for (const OperatorTraits& row : rows_with(Values::Converted)) {
    const Tensor x = operand(row);
    const Tensor y = result(row, {x});
    EXPECT_EQ(y.scalar_type(), at::kDouble) << row.name;
    EXPECT_TRUE(at::equal(y.to(at::kFloat), x)) << row.name;
  }
}

TEST_F(TraitsTest, WhatComputesHasOtherValues) {
  for (const OperatorTraits& row : rows_with(Values::Computed)) {
    if (row.has(IsIdentity) || row.has(ReadsShapeOnly)) continue;
    const Tensors tensors = operands(row);
    const Tensor y = result(row, tensors);
    if (y.scalar_type() == at::kFloat && tensors[0].scalar_type() == at::kFloat) {
      EXPECT_FALSE(are_of(y, tensors[0])) << row.name;
    }
  }
}

TEST_F(TraitsTest, IdentitiesReturnTheirOperandInEvaluation) {
  for (const OperatorTraits& row : rows_with(IsIdentity)) {
    const Tensor x = operand(row);
    EXPECT_TRUE(at::equal(bits(result(row, {x})), bits(x))) << row.name;
  }
}

TEST_F(TraitsTest, WhatReadsTheShapeDoesNotSeeTheValues) {
  for (const OperatorTraits& row : rows_with(ReadsShapeOnly)) {
    const Tensors tensors = operands(row);
    const c10::IValue of_one = result_of(row.name, {tensors[0]});
    EXPECT_FALSE(of_one.isTensor()) << row.name;
    EXPECT_EQ(of_one, result_of(row.name, {tensors[1]})) << row.name;
  }
}

}  // namespace values_test
}  // namespace tsq::operators
