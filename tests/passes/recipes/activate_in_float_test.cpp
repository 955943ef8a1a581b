// Activations whose int8 kernel takes longer after a convolution than the float operator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include "support/best_model.h"
#include "support/lowered.h"
#include "support/small_models.h"

namespace tsq {
namespace {

using testing::count;
using torch::jit::Module;

/// `body` computes y from self.first (4 → `channels`), self.second (`channels` → `channels`),
/// self.layer (12 → 12), self.prelu and x.
Module network(const std::string& body, int64_t channels, int64_t slopes) {
  torch::manual_seed(1);
  Module model = testing::user_module("Activated");
  model.register_module("first", testing::conv2d(4, channels, 3));
  model.register_module("second", testing::conv2d(channels, channels, 1));
  model.register_module("layer", testing::linear(12, 12));
  model.register_module("prelu", testing::prelu(slopes));
  model.define("def forward(self, x):\n" + body + "  return y\n");
  return model;
}

at::Tensor image() {
  torch::manual_seed(2);
  return torch::randn({2, 4, 12, 12});
}

constexpr const char* kPReLU = "  y = self.second.forward(self.prelu.forward(self.first.forward(x)))\n";

class ActivateInFloat : public ::testing::TestWithParam<const char*> {
 protected:
  static Module quantized(const Module& model) { return testing::best_model(model, image(), GetParam()); }
  static double sqnr(const Module& model, const Module& lowered) {
    return testing::sqnr(testing::run(model, image()), testing::run(lowered, image()));
  }
};

TEST_P(ActivateInFloat, APReLUAfterAConvolutionIsFloatAndItsNeighboursReadAndGiveBytes) {
  const Module model = network(kPReLU, 16, 16);
  const Module lowered = quantized(model);
  EXPECT_EQ(count(lowered, "quantized::prelu"), 0U);
  EXPECT_EQ(count(lowered, "aten::prelu"), 1U);
  EXPECT_EQ(count(lowered, "quantized::conv2d"), 2U);
  EXPECT_GT(sqnr(model, lowered), 30);
}

TEST_P(ActivateInFloat, ANormWithoutWeightsAfterAConvolutionIsLeftToItsKernel) {
  Module norm("__torch__.torch.nn.modules.instancenorm.InstanceNorm2d");
  for (const char* name : {"weight", "bias", "running_mean", "running_var"})
    norm.register_attribute(name, c10::NoneType::get(), c10::IValue());
  norm.register_attribute("eps", c10::FloatType::get(), 1e-5);
  norm.define(
      "def forward(self, x):\n  return torch.instance_norm(x, None, None, None, None, True, 0.1, self.eps, "
      "False)\n");
  Module model = network(kPReLU, 16, 1);
  Module with_norm = testing::user_module("Normed");
  for (const char* name : {"first", "second"}) with_norm.register_module(name, model.attr(name).toModule());
  with_norm.register_module("norm", norm);
  with_norm.define(
      "def forward(self, x):\n  return self.second.forward(self.norm.forward(self.first.forward(x)))\n");
  const Module lowered = quantized(with_norm);
  EXPECT_EQ(count(lowered, "quantized::instance_norm"), 1U);
  EXPECT_GT(sqnr(with_norm, lowered), 25);
}

TEST_P(ActivateInFloat, AnELUAfterASumOfConvolutionsIsToo) {
  const Module model = network(
      "  z = self.first.forward(x)\n"
      "  y = self.second.forward(torch.elu(self.second.forward(z) + z))\n",
      16, 1);
  const Module lowered = quantized(model);
  EXPECT_EQ(count(lowered, "quantized::elu"), 0U);
  EXPECT_EQ(count(lowered, "aten::elu"), 1U);
  EXPECT_GT(sqnr(model, lowered), 30);
}

TEST_P(ActivateInFloat, KernelsThatAreAsFastAreTaken) {
  EXPECT_EQ(count(quantized(network(kPReLU, 64, 64)), "quantized::prelu"), 1U) << "whole vectors of slopes";
  EXPECT_EQ(count(quantized(network(kPReLU, 16, 1)), "quantized::prelu"), 1U) << "one slope";
}

TEST_P(ActivateInFloat, TheReportSaysWhy) {
  const Reference reference = testing::best_reference(network(kPReLU, 16, 16), image(), GetParam());
  Report report;
  testing::lowered(reference, backend_config(GetParam()), &report);
  EXPECT_THAT(report.to_text(), ::testing::HasSubstr("its int8 kernel takes several times as long"));
}

TEST(ActivateInFloatAfterALinearLayer, TheKernelIsAsFast) {
  const Module rows = network("  y = self.layer.forward(self.prelu.forward(self.layer.forward(x)))\n", 4, 4);
  EXPECT_EQ(count(testing::best_model(rows, image(), "qnnpack"), "quantized::prelu"), 1U);
}

INSTANTIATE_TEST_SUITE_P(Engines, ActivateInFloat, ::testing::Values("fbgemm", "qnnpack"));

}  // namespace
}  // namespace tsq
