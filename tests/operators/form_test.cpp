// What operators keep of their operand: shape, order, layout, dtype, memory.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "operators/operator_calls.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace form_test {

using namespace calls;

TEST_F(TraitsTest, RankShapeAndOrderAreKept) {
  for (const OperatorTraits& row : rows_with(KeepsRank)) {
    const Tensors tensors = operands(row);
    for (const Tensor& y : results(row.name, tensors)) EXPECT_EQ(y.dim(), tensors[0].dim()) << row.name;
  }
  for (const OperatorTraits& row : rows_with(KeepsShape)) {
    const Tensors tensors = operands(row);
    EXPECT_EQ(result(row, tensors).sizes(), tensors[0].sizes()) << row.name;
  }
  for (const OperatorTraits& row : rows_with(KeepsOrder)) {
    const Tensor x = operand(row);
    EXPECT_TRUE(at::equal(result(row, {x}).flatten().to(at::kFloat), x.flatten())) << row.name;
  }
}

TEST_F(TraitsTest, ImagesStayChannelsLast) {
  for (const OperatorTraits& row : rows_with(KeepsLayout)) {
    Tensors tensors;
    for (int i = 0; i < 2; ++i) {
      const Tensor values = random_values(row, {2, 4, 6, 8}).contiguous(at::MemoryFormat::ChannelsLast);
      tensors.push_back(as_operand(row, values));
    }
    const Tensor y = result(row, tensors);
    EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast)) << row.name;
    EXPECT_FALSE(y.is_contiguous()) << row.name;
  }
}

TEST_F(TraitsTest, Bfloat16StaysBfloat16) {
  for (const OperatorTraits& row : rows_with(KeepsDtype)) {
    if (row.name.starts_with("quantized::")) continue;
    const Tensor x = operand(row).to(at::kBFloat16);
    for (const Tensor& y : results(row.name, {x, x})) EXPECT_EQ(y.scalar_type(), at::kBFloat16) << row.name;
  }
}

TEST_F(TraitsTest, ViewsAreMemoryOfTheOperand) {
  for (const OperatorTraits& row : rows_with(IsView)) {
    const Tensor x = operand(row);
    for (const Tensor& y : results(row.name, {x})) EXPECT_TRUE(y.is_alias_of(x)) << row.name;
  }
}

}  // namespace form_test
}  // namespace tsq::operators
