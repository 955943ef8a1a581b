// The pass fold_sizes: sizes that a layer's parameters tell.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <string>

#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace fold_sizes_test {

using testing::count;
using torch::jit::Module;

at::Tensor rows() {
  torch::manual_seed(2);
  return torch::randn({2, 5, 8});
}

Module model_of(const std::string& forward) {
  torch::manual_seed(1);
  Module model = testing::user_module("Sizes");
  model.register_module("fc", testing::linear(8, 16));
  model.register_module("norm", testing::layer_norm(16));
  model.define("def forward(self, x):\n" + forward);
  model.eval();
  return model;
}

/// How often the lowered model asks for a power, which computes a scale of a size.
std::size_t powers(const std::string& forward) {
  const Module model = model_of(forward);
  const Module lowered = testing::best_model(model, rows(), "x86");
  EXPECT_GT(testing::sqnr(testing::run(model, rows()), testing::run(lowered, rows())), 25) << forward;
  return count(lowered, "aten::pow");
}

TEST(FoldSizes, WhatIsComputedOfTheWidthOfALayerIsANumber) {
  EXPECT_EQ(powers("  y = self.fc.forward(x)\n"
                   "  b, t, d = y.size()\n"
                   "  return y * (d // 4) ** -0.5\n"),
            0U);
  EXPECT_EQ(powers("  y = self.norm.forward(torch.relu(self.fc.forward(x)))\n"
                   "  return y * y.size(-1) ** -0.5\n"),
            0U);
  EXPECT_EQ(powers("  y = torch.relu(self.fc.forward(x)).relu()\n"
                   "  return y * y.size()[-1] ** -0.5\n"),
            0U);
}

TEST(FoldSizes, ASumHasTheWidthOfTheWiderOperand) {
  EXPECT_EQ(powers("  y = self.fc.forward(x) + x[:, :, :1]\n"
                   "  return y * y.size(-1) ** -0.5\n"),
            0U);
}

TEST(FoldSizes, WhatAViewIsWrittenWithIsKnownInItsParts) {
  const std::string heads =
      "  y = self.fc.forward(x)\n"
      "  b, t, d = y.size()\n";
  EXPECT_EQ(powers(heads + "  k = y.view(b, t, 4, d // 4).transpose(1, 2)\n"
                           "  return k * k.size(-1) ** -0.5\n"),
            0U);
  EXPECT_EQ(powers(heads + "  q, k = y.reshape(b, t, 2, 4, d // 8).permute(2, 0, 3, 1, 4).unbind(0)\n"
                           "  return q * k.size(3) ** -0.5 + k * k.size(1) ** -0.5\n"),
            0U);
  EXPECT_EQ(powers(heads + "  q, k = y.view(b, t, 4, d // 4).transpose(-1, 1).chunk(2, 2)\n"
                           "  return q * k.size(1) ** -0.5\n"),
            0U);
}

TEST(FoldSizes, AViewTellsHowManyDimensionsThereAre) {
  EXPECT_EQ(powers("  y = self.fc.forward(x.flatten(2))\n"
                   "  y = y + torch.relu(self.fc.forward(x.flatten(2)))\n"
                   "  return y * y.size(2) ** -0.5\n"),
            0U);
}

TEST(FoldSizes, ALayerMayBeAnyNumberOfOperatorsAway) {
  std::string negated = "self.fc.forward(x)";
  for (int i = 0; i < 40; ++i) negated += ".neg()";
  EXPECT_EQ(powers("  y = " + negated + "\n  return y * y.size(-1) ** -0.5\n"), 0U);
}

TEST(FoldSizes, WhatTheInputDecidesIsAskedFor) {
  EXPECT_EQ(powers("  y = self.fc.forward(x)\n"
                   "  b, t, d = y.size()\n"
                   "  return y * t ** -0.5\n"),
            1U);
  EXPECT_EQ(powers("  y = self.fc.forward(x)\n"
                   "  return y * y.size(2) ** -0.5\n"),
            1U)
      << "there could be four dimensions";
  EXPECT_EQ(powers("  b, t, d = x.size()\n"
                   "  y = self.fc.forward(x).view(b, t, 4, 4).transpose(1, 2)\n"
                   "  return y * y.size(2) ** -0.5\n"),
            1U);
  EXPECT_EQ(powers("  y = self.fc.forward(x).transpose(1, 2)\n"
                   "  return y * y.size(-1) ** -0.5\n"),
            1U);
}

}  // namespace fold_sizes_test
}  // namespace tsq
