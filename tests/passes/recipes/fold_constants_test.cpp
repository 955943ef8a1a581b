// What a model computes from its parameters alone is computed when it is prepared.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <string>

#include "support/best_model.h"
#include "support/rounded_constants.h"
#include "support/small_models.h"

namespace tsq {
namespace fold_constants_test {

using testing::count;
using torch::jit::Module;

at::Tensor image() {
  torch::manual_seed(2);
  return torch::randn({2, 4, 12, 12});
}

/// A convolution `conv`, a weight `v` of another with 16 channels in and out, its sizes `g`, a linear weight
/// `w` of 48 rows, and `forward`.
Module model_of(const std::string& forward) {
  torch::manual_seed(1);
  Module model = testing::user_module("Computed");
  model.register_module("conv", testing::conv2d(4, 16, 3));
  model.register_parameter("v", torch::randn({16, 16, 3, 3}), /*is_buffer=*/false);
  model.register_parameter("g", torch::rand({16, 1, 1, 1}) + 0.5, /*is_buffer=*/false);
  model.register_parameter("w", torch::randn({48, 16}), /*is_buffer=*/false);
  model.register_buffer("s", torch::ones({16, 1, 1, 1}));
  model.register_attribute("twice", c10::BoolType::get(), true);
  model.define("def forward(self, x):\n  x = torch.relu(self.conv.forward(x))\n" + forward);
  return model;
}

void expect_layers(const std::string& forward, const std::string& kind, std::size_t layers) {
  const Module model = model_of(forward);
  const Module lowered = testing::best_model(model, image(), "x86");
  EXPECT_EQ(count(lowered, kind) + count(lowered, "quantized::linear"), layers) << forward;
  EXPECT_EQ(testing::rounded_constants(lowered), 0U) << forward;
  EXPECT_GT(testing::sqnr(testing::run(model, image()), testing::run(lowered, image())), 25) << forward;
}

TEST(FoldConstants, AComputedWeightIsAWeight) {
  expect_layers("  return torch.conv2d(x, self.v * (self.g / torch.norm(self.v, 2, [1, 2, 3], True)))\n",
                "quantized::conv2d", 1);
  expect_layers("  return torch.conv2d(x, torch._weight_norm(self.v, self.g, 0))\n", "quantized::conv2d", 1);
  expect_layers("  return torch.conv2d(x, self.v / torch.dot(self.v.flatten()[:16], self.g.flatten()))\n",
                "quantized::conv2d", 1);
}

TEST(FoldConstants, PartsOfAWeightAreWeights) {
  const std::string kind = "quantized::linear_with_input_q_dq_qweight_dq_output_fp32";
  expect_layers(
      "  y = x.flatten(2).transpose(1, 2)\n"
      "  a, b, c = self.w.chunk(3)\n"
      "  return torch.linear(y, a) + torch.linear(y, b) * torch.linear(y, c)\n",
      kind, 3);
  // The width of y is known from the weight that is split.
  expect_layers(
      "  y = x.flatten(2).transpose(1, 2)\n"
      "  n = y.size(2)\n"
      "  a, b = self.w.split([n, n * 2])\n"
      "  return torch.linear(y, a).sum(2, True) + torch.linear(y, b)\n",
      kind, 2);
}

TEST(FoldConstants, BranchesThatConstantsDecideGoAway) {
  const Module model = model_of(
      "  if self.v.size(0) == 16 and self.w.dim() == 2:\n"
      "    y = torch.conv2d(x, self.v)\n"
      "  else:\n"
      "    y = x\n"
      "  return y\n");
  const Module lowered = testing::best_model(model, image(), "x86");
  EXPECT_EQ(count(lowered, "prim::If"), 0U);
  EXPECT_EQ(count(lowered, "quantized::conv2d"), 1U);
}

/// As torch.nn.functional asks whether queries, keys and values are one.
TEST(FoldConstants, AValueIsItself) {
  const Module model = model_of(
      "  a = x\n"
      "  b = x\n"
      "  if x.size(0) > 1:\n"
      "    a = x.transpose(0, 1)\n"
      "    b = a\n"
      "  if a is b:\n"
      "    y = torch.conv2d(x, self.v)\n"
      "  else:\n"
      "    y = torch.conv2d(a, self.v) + b.sum()\n"
      "  return y\n");
  EXPECT_EQ(count(testing::best_model(model, image(), "x86"), "quantized::conv2d"), 1U);
}

TEST(FoldConstants, AWeightThatTheModelWritesIsComputedInEachRun) {
  Module model = model_of(
      "  self.s.mul_(2.)\n"
      "  return torch.conv2d(x, self.v * self.s)\n");
  Module lowered = testing::best_model(model, image(), "x86");
  EXPECT_EQ(count(lowered, "aten::mul"), 1U);
  const at::Tensor first = testing::run(lowered, image());
  EXPECT_FALSE(at::equal(first, testing::run(lowered, image())));
}

/// Files stay as small as they were.
TEST(FoldConstants, WhatIsLargerThanItsParametersIsComputedInEachRun) {
  const Module model = model_of("  return x + self.g.reshape([16, 1, 1]).repeat([1, 12, 12])\n");
  EXPECT_EQ(count(testing::best_model(model, image(), "x86"), "aten::repeat"), 1U);
}

/// Each step reads the last one's result twice: the ways to the end double with each.
TEST(FoldConstants, AnUnrolledLoopTakesNoLongerThanItsOperators) {
  std::string steps = "  h = self.g.view([1, 16])\n";
  for (int step = 0; step < 48; ++step) steps += "  h = torch.gru_cell(h, h, self.w, self.w)\n";
  const Module model = model_of(steps + "  return x * h.sum()\n");
  EXPECT_NO_THROW(testing::best_model(model, image(), "x86"));
}

}  // namespace fold_constants_test
}  // namespace tsq
