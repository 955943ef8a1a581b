// The passes of the room place that recipe best adds, on gates, averages, products and activations.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include "passes/place/passes.h"
#include "support/before_pass.h"
#include "support/small_models.h"

namespace tsq {
namespace {

using ir::Placement;
using ir::Reason;
using testing::CalibratedModel;
using testing::call_node;
using torch::jit::Module;

/// Maps h of x → their averages → `hidden` channels → a gate g → `product` → point.
CalibratedModel gated(int64_t hidden, const char* engine, const char* pass,
                      const std::string& product = "g * h",
                      const std::string& average = "torch.adaptive_avg_pool2d(h, [1, 1])") {
  torch::manual_seed(1);
  Module model = testing::user_module("Gated");
  model.register_module("conv", testing::conv2d(4, 16, 3));
  model.register_module("squeeze", testing::conv2d(16, hidden, 1));
  model.register_module("excite", testing::conv2d(hidden, 16, 1));
  model.register_module("point", testing::conv2d(16, 16, 1));
  model.define("def forward(self, x):\n  h = torch.relu(self.conv.forward(x))\n  g = " + average +
               "\n  g = torch.sigmoid(self.excite.forward(torch.relu(self.squeeze.forward(g))))\n"
               "  return self.point.forward(" +
               product + ")\n");
  return testing::before_pass(model, torch::randn({2, 4, 12, 12}), engine, pass);
}

const ir::NodeRecord& record(const CalibratedModel& result, const ir::Node* node) {
  return *ir::record_of(result.model, node);
}

TEST(GateInFloat, ASmallGateIsFloatAndItsLayersAreLinear) {
  CalibratedModel result = gated(4, "x86", "gate_in_float");
  EXPECT_TRUE(passes::gate_in_float(result.model, result.context));
  EXPECT_TRUE(passes::make_gates_linear(result.model, result.context));
  for (const char* path : {"squeeze", "excite"}) {
    EXPECT_EQ(record(result, call_node(result.model, path)).placement, Placement::Float) << path;
    EXPECT_EQ(record(result, call_node(result.model, path)).reason, Reason::SmallGate) << path;
    EXPECT_EQ(testing::layer(result.model, path).weight.dim(), 2) << path;
  }
  EXPECT_EQ(testing::count(result.model, "aten::flatten"), 1U);
  EXPECT_EQ(testing::count(result.model, "aten::unsqueeze"), 2U);
  EXPECT_EQ(record(result, call_node(result.model, "point")).placement, Placement::Int8);
}

TEST(GateInFloat, OnAnEngineThatBeginsFastItIsNot) {
  CalibratedModel result = gated(4, "qnnpack", "gate_in_float");
  EXPECT_FALSE(passes::gate_in_float(result.model, result.context));
  EXPECT_EQ(record(result, call_node(result.model, "squeeze")).placement, Placement::Int8);
}

TEST(AverageInFloat, AWholeAverageIsComputedBetweenDequantizeAndQuantize) {
  CalibratedModel result = gated(4, "fbgemm", "average_in_float");
  EXPECT_TRUE(passes::average_in_float(result.model, result.context));
  const ir::Node* average = testing::node_of_kind(result.model, "aten::adaptive_avg_pool2d");
  EXPECT_EQ(record(result, average).placement, Placement::Reference);
  EXPECT_EQ(record(result, average).reason, Reason::WholeAverage);
}

TEST(AverageInFloat, AnAverageOfPartsIsNot) {
  CalibratedModel result =
      gated(4, "fbgemm", "average_in_float", "g + h[:, :, :2, :2]", "torch.adaptive_avg_pool2d(h, [2, 2])");
  EXPECT_FALSE(passes::average_in_float(result.model, result.context));
}

TEST(MultiplyInFloat, AProductWithAGateIsComputedBetweenDequantizeAndQuantize) {
  CalibratedModel result = gated(4, "qnnpack", "multiply_in_float");
  EXPECT_TRUE(passes::multiply_in_float(result.model, result.context));
  const ir::Node* product = testing::node_of_kind(result.model, "aten::mul");
  EXPECT_EQ(record(result, product).placement, Placement::Reference);
  EXPECT_EQ(record(result, product).reason, Reason::Broadcasts);
  EXPECT_FALSE(record(result, product).decision.quantized);
}

TEST(MultiplyInFloat, AProductOfTwoConvolutionsIsNot) {
  CalibratedModel result = gated(4, "fbgemm", "multiply_in_float", "self.point.forward(h) * h");
  EXPECT_FALSE(passes::multiply_in_float(result.model, result.context));
  EXPECT_EQ(record(result, testing::node_of_kind(result.model, "aten::mul")).placement, Placement::Int8);
}

/// Convolutions of so many channels with a PReLU between.
CalibratedModel with_prelu(int64_t channels) {
  torch::manual_seed(2);
  Module model = testing::user_module("Activated");
  model.register_module("first", testing::conv2d(4, channels, 3));
  model.register_module("prelu", testing::prelu(channels));
  model.register_module("second", testing::conv2d(channels, channels, 1));
  model.define(
      "def forward(self, x):\n  return self.second.forward(self.prelu.forward(self.first.forward(x)))\n");
  return testing::before_pass(model, torch::randn({2, 4, 12, 12}), "fbgemm", "activate_in_float");
}

TEST(ActivateInFloat, AnActivationWhoseKernelIsSlowIsComputedBetweenDequantizeAndQuantize) {
  CalibratedModel result = with_prelu(16);
  EXPECT_TRUE(passes::activate_in_float(result.model, result.context));
  const ir::Node* prelu = call_node(result.model, "prelu");
  EXPECT_EQ(record(result, prelu).placement, Placement::Reference);
  EXPECT_EQ(record(result, prelu).reason, Reason::SlowActivation);
  EXPECT_FALSE(record(result, prelu).decision.quantized);
}

TEST(ActivateInFloat, OneWhoseKernelIsFastIsNot) {
  CalibratedModel result = with_prelu(64);
  EXPECT_FALSE(passes::activate_in_float(result.model, result.context));
  EXPECT_EQ(record(result, call_node(result.model, "prelu")).placement, Placement::Int8);
}

}  // namespace
}  // namespace tsq
