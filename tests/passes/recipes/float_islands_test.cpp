// What lies between quantized operators, through loops and branches.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace float_islands_test {

using torch::jit::Module;

/// `forward` may use the linear layers a and b (16 to 16).
Module two_layers(const std::string& forward) {
  torch::manual_seed(0);
  Module model = testing::user_module("TwoLayers");
  model.register_module("a", testing::linear(16, 16));
  model.register_module("b", testing::linear(16, 16));
  model.define("def forward(self, x):\n" + forward);
  return model;
}

Module made_of(const Module& model) { return testing::best_model(model, torch::randn({32, 16}), "x86"); }

std::size_t additions_in_int8(const Module& model) {
  return testing::count(made_of(model), "quantized::add");
}

TEST(FloatIslands, OperatorsOfALoopThatReadOnlyEachOtherStayFloat) {
  const Module model = two_layers(
      "  y = x\n  for i in range(3):\n    y = 0.5 * (y + x)\n"
      "  return self.a.forward(y)\n");
  const Module alone = two_layers("  y = x\n  for i in range(3):\n    y = 0.5 * (y + x)\n  return y\n");
  EXPECT_EQ(additions_in_int8(model), 0U);
  EXPECT_EQ(additions_in_int8(alone), 0U);
  EXPECT_EQ(testing::count(made_of(alone), "aten::quantize_per_tensor"), 0U);
}

TEST(FloatIslands, OperatorsOfALoopAfterItsLayerAreQuantized) {
  const Module model = two_layers(
      "  y = self.b.forward(x)\n  for i in range(3):\n    y = self.a.forward(y) + y\n"
      "  return self.b.forward(y)\n");
  EXPECT_GT(additions_in_int8(model), 0U);
}

TEST(FloatIslands, WhatABranchGivesIsFollowedToItsReaders) {
  const std::string branch = "  y = self.a.forward(x)\n  if x.size(0) > 2:\n    y = y + self.b.forward(x)\n";
  EXPECT_EQ(additions_in_int8(two_layers(branch + "  return self.b.forward(y)\n")), 1U);
  EXPECT_EQ(additions_in_int8(two_layers(branch + "  return torch.exp(y)\n")), 0U);
}

}  // namespace float_islands_test
}  // namespace tsq
