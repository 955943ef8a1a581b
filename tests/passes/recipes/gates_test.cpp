// Squeeze and excitation: maps multiplied by what is made of their averages.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <string>

#include "support/best_model.h"
#include "support/lowered.h"
#include "support/small_models.h"

namespace tsq {
namespace {

using testing::count;
using torch::jit::Module;

/// `maps` of x, here called h → their averages → `hidden` channels g → `gate` of g → `product` → point.
Module gated(int64_t hidden, const std::string& product = "g * h",
             const std::string& maps = "torch.relu(self.conv.forward(x))",
             const std::string& gate = "torch.sigmoid(g)") {
  torch::manual_seed(1);
  Module model = testing::user_module("Gated");
  model.register_module("conv", testing::conv2d(4, 16, 3));
  model.register_module("squeeze", testing::conv2d(16, hidden, 1));
  model.register_module("excite", testing::conv2d(hidden, 16, 1));
  model.register_module("point", testing::conv2d(16, 16, 1));
  model.define("def forward(self, x):\n  h = " + maps +
               "\n"
               "  g = torch.adaptive_avg_pool2d(h, [1, 1])\n"
               "  g = self.excite.forward(torch.relu(self.squeeze.forward(g)))\n"
               "  g = " +
               gate +
               "\n"
               "  return self.point.forward(" +
               product + ")\n");
  return model;
}

at::Tensor image() {
  torch::manual_seed(2);
  return torch::randn({2, 4, 24, 24});
}

Module quantized(const Module& model, const std::string& engine) {
  return testing::best_model(model, image(), engine);
}

double sqnr(const Module& model, const Module& lowered) {
  return testing::sqnr(testing::run(model, image()), testing::run(lowered, image()));
}

class Gates : public ::testing::TestWithParam<const char*> {};

TEST_P(Gates, MultiplyInFloatFromEitherSide) {
  for (const char* product : {"g * h", "h * g"}) {
    const Module model = gated(4, product);
    const Module lowered = quantized(model, GetParam());
    EXPECT_EQ(count(lowered, "quantized::mul"), 0U) << product;
    EXPECT_EQ(count(lowered, "aten::mul"), 1U) << product;
    EXPECT_EQ(count(lowered, "quantized::conv2d_relu"), 1U);
    EXPECT_GT(sqnr(model, lowered), 30) << product;
  }
}

TEST_P(Gates, TheReportSaysWhy) {
  const Reference reference = testing::best_reference(gated(4), image(), GetParam());
  Report report;
  testing::lowered(reference, backend_config(GetParam()), &report);
  EXPECT_THAT(report.to_text(), ::testing::HasSubstr("part of a small gate"));
}

TEST_P(Gates, WhatAnActivationGivesToThemAloneIsNotRounded) {
  const Module model = gated(4, "g * h", "torch.hardswish(self.conv.forward(x))");
  const Module lowered = quantized(model, GetParam());
  EXPECT_EQ(count(lowered, "quantized::hardswish"), 0U);
  EXPECT_EQ(count(lowered, "aten::hardswish"), 1U);
  EXPECT_GT(sqnr(model, lowered), 30);
}

TEST_P(Gates, MayEndInAClamp) {
  const Module model =
      gated(4, "g * h", "torch.relu(self.conv.forward(x))", "torch.clamp(g * 0.2 + 0.5, 0, 1)");
  const Module lowered = quantized(model, GetParam());
  EXPECT_EQ(count(lowered, "quantized::mul"), 0U);
  EXPECT_EQ(count(lowered, "aten::linear"), 2U);
  EXPECT_GT(sqnr(model, lowered), 30);
}

INSTANTIATE_TEST_SUITE_P(Engines, Gates, ::testing::Values("x86", "fbgemm", "onednn"));

TEST(GateInFloat, SmallLayersBecomeLinearWhereKernelsTakeLongToBegin) {
  for (const char* engine : {"x86", "onednn", "fbgemm"})
    for (const char* operation : {"aten::linear", "aten::unsqueeze"})
      EXPECT_EQ(count(quantized(gated(4), engine), operation), 2U);
  EXPECT_EQ(count(quantized(gated(4), "qnnpack"), "aten::linear"), 0U);
}

TEST(GateInFloat, AGateThatIsReadElsewhereStaysAnImage) {
  const Module model = gated(4, "g * h + torch.abs(g)");
  const Module lowered = quantized(model, "x86");
  EXPECT_EQ(count(lowered, "aten::linear"), 0U);
  EXPECT_EQ(count(lowered, "aten::conv2d"), 2U);
  EXPECT_GT(sqnr(model, lowered), 30);
}

TEST(GateInFloat, LargeLayersStayInInt8) {
  const Module lowered = quantized(gated(4096), "x86");
  EXPECT_EQ(count(lowered, "aten::linear"), 0U);
  EXPECT_EQ(count(lowered, "quantized::mul"), 0U);
}

TEST(GateInFloat, AProductOfTwoConvolutionsIsNone) {
  const Module lowered = quantized(gated(4, "self.point.forward(h) * h"), "x86");
  EXPECT_EQ(count(lowered, "quantized::mul"), 1U);
}

/// Channels in front of a hardswish, half of whose values lie far below -3.
TEST(ClampObserved, ValuesThatHardswishTakesForZeroCostNoCodes) {
  torch::manual_seed(1);
  Module conv = testing::conv2d(4, 16, 3);
  const torch::NoGradGuard no_grad;
  conv.attr("bias").toTensor().copy_(at::where(at::arange(16) < 8, at::full({16}, -300.0), at::zeros({16})));
  Module model = testing::user_module("FarBelow");
  model.register_module("conv", conv);
  model.register_module("point", testing::conv2d(16, 16, 1));
  model.define("def forward(self, x):\n  return self.point.forward(torch.hardswish(self.conv.forward(x)))\n");
  const Module lowered = quantized(model, "fbgemm");
  EXPECT_EQ(count(lowered, "aten::clamp"), 0U);
  EXPECT_GT(sqnr(model, lowered), 30);
}

}  // namespace
}  // namespace tsq
