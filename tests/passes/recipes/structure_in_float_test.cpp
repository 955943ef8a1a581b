// What recipe best folds away or leaves in float, because rounding it costs more than it saves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <map>

#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace structure_in_float_test {

using testing::count;
using torch::jit::Module;

at::Tensor image() {
  torch::manual_seed(2);
  return torch::randn({2, 4, 24, 24}) + 1;
}

/// `body` computes y from self.conv (4 → 16), self.point (16 → 16), self.head (16 → 4), others, buffers and
/// x.
Module network(const std::string& body, const std::map<std::string, Module>& others = {}) {
  torch::manual_seed(1);
  Module model = testing::user_module("Network");
  for (const auto& [name, module] : others) model.register_module(name, module);
  model.register_module("conv", testing::conv2d(4, 16, 3));
  model.register_module("point", testing::conv2d(16, 16, 1));
  model.register_module("head", testing::linear(16, 4));
  model.register_buffer("added", torch::rand({16}) - 0.5);
  model.register_buffer("shape", torch::tensor({16, 1, 1}));
  model.define("def forward(self, x):\n" + body + "  return y\n");
  return model;
}

Module quantized(const Module& model, const std::string& engine = "x86") {
  return testing::best_model(model, image(), engine);
}

at::Tensor run(const Module& model) { return testing::run(model, image()); }

double sqnr(const Module& model, const Module& lowered) { return testing::sqnr(run(model), run(lowered)); }

class AverageInFloat : public ::testing::TestWithParam<const char*> {};

TEST_P(AverageInFloat, AnAverageOfAMapIsNotRoundedAsTheMapIs) {
  // Its spread over the channels is a small part of the map's range.
  const Module model = network(
      "  z = torch.relu(self.conv.forward(x)) * 1.\n"
      "  y = self.point.forward(torch.adaptive_avg_pool2d(z, [1, 1]))\n");
  const Module lowered = quantized(model, GetParam());
  EXPECT_EQ(count(lowered, "aten::adaptive_avg_pool2d"), 0U);
  EXPECT_EQ(count(lowered, "aten::avg_pool2d"), 1U);
  EXPECT_EQ(count(lowered, "aten::quantize_per_tensor"), 2U);
  EXPECT_GT(sqnr(model, lowered), 33);
}

TEST_P(AverageInFloat, AMeanOverHeightAndWidthIsTheSame) {
  const Module model =
      network("  y = self.point.forward(torch.mean(torch.relu(self.conv.forward(x)), [2, 3], True))\n");
  const Module lowered = quantized(model, GetParam());
  EXPECT_EQ(count(lowered, "aten::mean"), 0U);
  EXPECT_EQ(count(lowered, "aten::avg_pool2d"), 1U);
  EXPECT_GT(sqnr(model, lowered), 33);
}

INSTANTIATE_TEST_SUITE_P(Engines, AverageInFloat, ::testing::Values("x86", "fbgemm", "onednn", "qnnpack"));

TEST(AverageInFloat, OtherPoolsStayOnBytes) {
  const Module model = network(
      "  y = self.point.forward(torch.adaptive_avg_pool2d(torch.relu(self.conv.forward(x)), [2, 2]))\n");
  const Module lowered = quantized(model);
  EXPECT_EQ(count(lowered, "aten::adaptive_avg_pool2d"), 1U);
  EXPECT_EQ(count(lowered, "aten::quantize_per_tensor"), 1U);
}

TEST(FoldArithmetic, ABiasThatIsAddedByItselfBecomesTheLayersOwn) {
  const Module model = network(
      "  n = self.shape.unbind(0)\n"
      "  b = self.added.reshape([int(n[0]), int(n[1]), int(n[2])])\n"
      "  y = self.point.forward(torch.relu(self.conv.forward(x) + b))\n");
  const Module lowered = quantized(model);
  EXPECT_EQ(count(lowered, "quantized::add") + count(lowered, "aten::add"), 0U);
  EXPECT_EQ(count(lowered, "aten::unbind"), 0U);
  EXPECT_GT(sqnr(model, lowered), 33);
}

TEST(FoldArithmetic, SumsAndProductsWithNumbersBecomeWeightAndBias) {
  const Module model = network(
      "  z = 0.5 - 0.1 + self.conv.forward(x) * 0.2 / 0.5 - 0.25\n"
      "  y = self.point.forward(torch.clamp(z, 0., 1.))\n");
  const Module lowered = quantized(model);
  for (const char* kind :
       {"quantized::add", "quantized::mul", "aten::add", "aten::mul", "aten::div", "aten::sub"})
    EXPECT_EQ(count(lowered, kind), 0U) << kind;
  EXPECT_GT(sqnr(model, lowered), 30);
}

TEST(FoldArithmetic, ABufferThatChangesIsNoConstant) {
  const Module model = network(
      "  self.added.add_(1.)\n"
      "  y = self.point.forward(self.conv.forward(x) + self.added.reshape([16, 1, 1]))\n");
  EXPECT_EQ(count(quantized(model), "aten::add") + count(quantized(model), "quantized::add"), 1U);
}

TEST(FoldArithmetic, AConstantAlongTheWidthIsNoBias) {
  const Module model = network(
      "  y = self.point.forward(self.point.forward(self.conv.forward(x)[:, :, :, :16]) "
      "+ self.added)\n");
  EXPECT_EQ(count(quantized(model), "aten::add") + count(quantized(model), "quantized::add"), 1U);
}

TEST(FoldArithmetic, OneOfSeveralCallsKeepsItsSum) {
  const Module model = network(
      "  z = self.conv.forward(x)\n"
      "  y = self.point.forward(self.point.forward(z) + 0.5)\n");
  EXPECT_EQ(count(quantized(model), "aten::add") + count(quantized(model), "quantized::add"), 1U);
}

TEST(FoldArithmetic, ABatchDimensionThatTheConstantAddsStays) {
  const Module model =
      network("  y = torch.relu(self.conv.forward(x) + self.added.reshape([1, 16, 1, 1]))\n");
  const Module lowered = quantized(model);
  EXPECT_EQ(count(lowered, "aten::add") + count(lowered, "quantized::add_relu"), 0U);
  EXPECT_EQ(testing::run(lowered, image()[0]).sizes(), testing::run(model, image()[0]).sizes());
  EXPECT_GT(sqnr(model, lowered), 33);
}

/// torchvision's FrozenBatchNorm2d, and others that are written out.
TEST(FoldArithmetic, BatchNormsThatAreWrittenOutBecomePartOfTheirLayers) {
  const std::string norm =
      "  w = (self.added.reshape([1, -1, 1, 1]) + 1.)\n"
      "  v = self.added.abs().reshape([1, -1, 1, 1])\n"
      "  m = self.added.reshape([1, -1, 1, 1]) * 2.\n";
  for (const std::string after : {"  s = w * (v + 1e-5).rsqrt()\n  z = z * s + (m - m * s)\n",
                                  "  z = (z - m) / torch.sqrt(v + 1e-5) * w + m\n"}) {
    const Module model = network(norm + "  z = self.conv.forward(x)\n" + after +
                                 "  z = torch.relu(z)\n  y = z + torch.relu(self.point.forward(z))\n");
    const Module lowered = quantized(model);
    for (const char* kind :
         {"aten::mul", "quantized::mul", "aten::sub", "aten::div", "aten::rsqrt", "aten::sqrt"})
      EXPECT_EQ(count(lowered, kind), 0U) << kind << after;
    EXPECT_EQ(count(lowered, "aten::reshape"), 1U) << after;
    EXPECT_GT(sqnr(model, lowered), 30) << after;
  }
}

TEST(FoldArithmetic, ANumberThatScoresAreDividedByGoesIntoTheLayer) {
  const Module model = network(
      "  z = torch.flatten(self.conv.forward(x), 2).transpose(1, 2)\n"
      "  q = self.head.forward(z).view([2, -1, 2, 2]).transpose(1, 2)\n"
      "  y = torch.softmax(torch.matmul(q, z.reshape([2, 2, 2, -1])) / 40., -1)\n");
  const Module lowered = quantized(model);
  EXPECT_EQ(count(lowered, "aten::div"), 0U);
  EXPECT_GT(sqnr(model, lowered), 18);
}

TEST(FoldArithmetic, ANumberPassesThroughSumsOverDimensions) {
  const Module model = network("  y = torch.mean(self.conv.forward(x), [2, 3]) / 8\n");
  const Module lowered = quantized(model);
  EXPECT_EQ(count(lowered, "aten::div"), 0U);
  EXPECT_GT(sqnr(model, lowered), 33);
}

TEST(FoldArithmetic, ANumberOfWhatHasTheShapeOfALayersOutputIsNoneOfTheLayer) {
  const Module model = network("  y = x[:, :1, :1, :1].expand_as(self.conv.forward(x)) * 3\n");
  const Module lowered = quantized(model);
  EXPECT_EQ(count(lowered, "aten::mul"), 1U);
  EXPECT_GT(sqnr(model, lowered), 33);
}

TEST(FoldArithmetic, ANumberAfterWhatOthersReadStays) {
  for (const char* body : {
           "  q = self.head.forward(x.flatten(1)[:, :16])\n  y = q.transpose(0, 1) / 4. + q.sum()\n",
           "  q = self.head.forward(x.flatten(1)[:, :16])\n  y = torch.matmul(q, q.transpose(0, 1)) / 4.\n",
           "  q = self.head.forward(x.flatten(1)[:, :16])\n  y = torch.tanh(q.transpose(0, 1)) / 4.\n",
           "  q = self.head.forward(x.flatten(1)[:, :16])\n  y = q.transpose(0, 1) * self.added[:2]\n",
       }) {
    const Module lowered = quantized(network(body));
    EXPECT_EQ(count(lowered, "aten::div") + count(lowered, "aten::mul") + count(lowered, "aten::reciprocal"),
              1U)
        << body;
  }
}

TEST(LeaveFloatIslands, WhatIsOnlyMovedOnItsWayOutIsNotRounded) {
  const Module model = network("  y = torch.sigmoid(self.conv.forward(x)).flatten(1).unsqueeze(0)\n");
  const Module lowered = quantized(model, "fbgemm");
  torch::jit::testing::FileCheck()
      .check("quantized::conv2d")
      ->check("aten::dequantize")
      ->check("aten::sigmoid")
      ->check("aten::flatten")
      ->check_not("aten::dequantize")
      ->run(lowered.get_method("forward").graph()->toString());
}

/// 4 → 104 channels, each of which a kernel slides over; fbgemm has one for 3 x 3 without holes.
Module depthwise(int64_t dilation) {
  constexpr int64_t kGroups = 104;
  torch::manual_seed(1);  // the layers are made before the network
  Module model = network(
      "  y = torch.relu(self.sliding.forward(torch.relu(self.wide.forward(x))))\n"
      "  y = self.last.forward(y)\n",
      {{"wide", testing::conv2d(4, kGroups, 1)},
       {"sliding", testing::conv2d(1, kGroups, 3)},
       {"last", testing::conv2d(kGroups, 4, 1)}});
  Module sliding = model.attr("sliding").toModule();
  sliding.setattr("groups", kGroups);
  sliding.setattr("padding", std::vector<int64_t>{dilation, dilation});
  sliding.setattr("dilation", std::vector<int64_t>{dilation, dilation});
  return model;
}

std::size_t int8_convolutions(const Module& lowered) {
  return count(lowered, "quantized::conv2d") + count(lowered, "quantized::conv2d_relu");
}

TEST(SlowKernels, OfX86AreLeftForThoseThatGiveFloat) {
  const Module lowered = quantized(depthwise(2), "x86");
  EXPECT_EQ(int8_convolutions(lowered), 2U);
  EXPECT_EQ(count(lowered, "onednn::qconv2d_pointwise"), 1U);
  EXPECT_EQ(count(lowered, "aten::_make_per_tensor_quantized_tensor"), 1U);
  EXPECT_GT(sqnr(depthwise(2), lowered), 33);
}

TEST(SlowKernels, OfFbgemmAreLeftForFloat) {
  const Reference reference =
      testing::best_reference(depthwise(2), image(), "fbgemm", machine_profile("avx512-vnni"));
  const auto decisions = reference.report().decisions;
  const auto sliding = std::ranges::find(decisions, "sliding", &Decision::layer);
  ASSERT_NE(sliding, decisions.end());
  EXPECT_THAT(sliding->reason, ::testing::HasSubstr("it costs least in float"));
}

TEST(SlowKernels, AreNotThoseOfOtherEnginesAndSizes) {
  for (const char* engine : {"onednn", "qnnpack"})
    EXPECT_EQ(int8_convolutions(quantized(depthwise(2), engine)), 3U);
  for (const char* engine : {"x86", "fbgemm"})
    EXPECT_EQ(int8_convolutions(quantized(depthwise(1), engine)), 3U);
}

}  // namespace structure_in_float_test
}  // namespace tsq
