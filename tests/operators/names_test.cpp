// The names of the rows in the table of operators.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "ir/analysis.h"
#include "operators/operator_calls.h"
#include "operators/traits.h"
#include "support/graph_model.h"

namespace tsq::operators {
namespace names_test {

using namespace calls;

TEST_F(TraitsTest, EveryRowNamesAnOperator) {
  for (const OperatorTraits& row : rows_with_operator()) EXPECT_TRUE(exists(row.name)) << row.name;
}

TEST_F(TraitsTest, NoTwoRowsHaveOneName) {
  for (const OperatorTraits& row : all()) EXPECT_EQ(find(row.name), &row) << row.name;
}

TEST_F(TraitsTest, OtherNamesOfAnOperatorDoTheSame) {
  for (const OperatorTraits& row : rows_with_operator()) {
    for (const std::string_view other : row.also) {
      if (other.empty()) continue;
      EXPECT_EQ(find(other), find(row.name)) << other;
      if (!exists(other)) continue;
      const Tensors tensors = operands(row);
      EXPECT_TRUE(at::equal(result(row, tensors), results(other, tensors).front())) << other;
    }
  }
}

TEST_F(TraitsTest, InPlaceFormsDoTheSameInTheMemoryOfTheOperand) {
  for (const OperatorTraits& row :
       rows_where([](const OperatorTraits& each) { return exists(std::string(each.name) + "_"); })) {
    SCOPED_TRACE(row.name);
    const Tensors tensors = operands(row);
    const Tensor expected = result(row, tensors);
    Tensors written{tensors[0].clone(), tensors[1]};
    const void* memory = written[0].data_ptr();
    const Tensor made = results(std::string(row.name) + "_", written).front();
    EXPECT_EQ(made.data_ptr(), memory);
    EXPECT_EQ(made.sizes(), expected.sizes());
    EXPECT_TRUE(is_near(made, expected));
    EXPECT_EQ(find("aten::" + std::string(row.name) + "_"), find(row.name));
  }
}

TEST_F(TraitsTest, AllSpellingsOfAnOperatorFindItsRow) {
  for (const char* name : {"aten::leaky_relu", "aten::leaky_relu_", "torch.nn.LeakyReLU", "leaky_relu",
                           "torch.nn.functional.leaky_relu", "torch.nn.functional.leaky_relu_"}) {
    ASSERT_NE(find(name), nullptr) << name;
    EXPECT_EQ(find(name)->name, "leaky_relu") << name;
  }
  const std::map<std::string_view, std::string_view> names{
      {"torch.nn.BatchNorm2d", "batch_norm"},
      {"torch.nn.Dropout2d", "feature_dropout"},
      {"torch.nn.functional._max_pool2d", "max_pool2d"},
      {"torch.concatenate", "cat"},
      {"operator.truediv", "div"},
      {"torch.nn.PReLU", "prelu"},
      {"torch.nn.AdaptiveAvgPool2d", "adaptive_avg_pool2d"},
      {"torch.nn.ConstantPad3d", "constant_pad_nd"},
      {"quantized::elu", "quantized::elu"}};
  for (const auto& [name, row] : names) {
    ASSERT_NE(find(name), nullptr) << name;
    EXPECT_EQ(find(name)->name, row) << name;
  }
}

TEST_F(TraitsTest, NamesOfOtherThingsFindNoRow) {
  for (const char* name : {"prim::relu", "quantized::relu", "my.package.ReLU",
                           "torch.ao.nn.intrinsic.ConvReLU2d", "torch.nn.Conv2d", "aten::conv2d", ""})
    EXPECT_EQ(find(name), nullptr) << name;
}

ir::Model model_without_rows() {
  return testing::model_of_graph("%x : Tensor, %n : int", R"(
  %product : Tensor = aten::linear(%x, %x, %none)
  %mask : Tensor = aten::eq(%x, %zero)
  %same : bool = aten::eq(%n, %zero)
  %sizes : int[] = prim::ListConstruct(%one, %two)
  %made : Tensor = aten::zeros(%sizes, %none, %none, %none, %none)
  %like : Tensor = aten::zeros_like(%x, %none, %none, %none, %none, %none)
  %summed : Tensor = quantized::linear(%x, %x, %scale, %zero)
  %relued : Tensor = aten::relu_(%x)
  return (%product))");
}

bool is_value_of(const ir::Model& model, const std::string& name, std::string_view operator_name) {
  return is_one_of(model, testing::node_named(model, name), {"tanh", operator_name});
}

TEST_F(TraitsTest, OperatorsAreKnownByNameWithOrWithoutARow) {
  const ir::Model model = model_without_rows();
  for (const auto& [name, operator_name] :
       {std::pair("product", "linear"), std::pair("mask", "eq"), std::pair("made", "zeros"),
        std::pair("like", "zeros_like"), std::pair("relued", "relu")})
    EXPECT_TRUE(is_value_of(model, name, operator_name)) << name;
  EXPECT_FALSE(is_value_of(model, "product", "relu"));
  EXPECT_FALSE(is_value_of(model, "summed", "linear")) << "of another namespace";
  EXPECT_FALSE(is_value_of(model, "same", "eq")) << "of numbers";
}

TEST_F(TraitsTest, ModulesOfPyTorchAreKnownByTheNameOfTheirOperator) {
  ir::Model model = model_without_rows();
  testing::put_call(model, "mask", {.type = symbol("torch.nn.Linear"), .path = "layer"});
  const auto calls = ir::nodes_in_order(*model.graph);
  const auto call = std::ranges::find_if(calls, ir::is_module_call);
  ASSERT_NE(call, calls.end());
  EXPECT_TRUE(is_one_of(model, *call, {"linear"}));
  EXPECT_FALSE(is_one_of(model, *call, {"bilinear"}));
}

}  // namespace names_test
}  // namespace tsq::operators
