// What recipe best does ahead of functions that are steep where values are small.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>
#include <tsq/tsq.h>

#include "backends/kernels/engine.h"
#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace amplified_test {

using torch::jit::Module;

/// Values of many sizes through a layer of positive weights and `function`, then through two layers more.
Module after_a_layer(const std::string& function) {
  torch::manual_seed(8);
  Module model = testing::user_module("Steep");
  Module bank = testing::linear(32, 24);
  const at::NoGradGuard no_grad;
  bank.attr("weight").toTensor().uniform_(0, 1).mul_(at::rand({24, 32}) < 0.15);
  bank.attr("bias").toTensor().fill_(1e-4);
  model.register_module("bank", bank);
  model.register_module("a", testing::linear(24, 32));
  model.register_module("b", testing::linear(32, 8));
  model.register_buffer("small", at::full({24}, 0.4));
  model.register_buffer("least", at::full({24}, 1e-4));
  model.define("def forward(self, x):\n  y = self.bank.forward(x)\n  y = " + function +
               "\n  return self.b.forward(torch.relu(self.a.forward(y)))\n");
  return model;
}

at::Tensor power() {
  torch::manual_seed(9);
  return (at::randn({256, 32}) * 3).exp();
}

class Amplified : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(
    Functions, Amplified,
    ::testing::Values("torch.log(y + 1e-6)", "torch.log2(y.clamp(min=1e-4))",
                      "torch.log10(torch.relu(y) * 2.0 + 1e-5)", "torch.log1p(y)", "torch.sqrt(y)",
                      "torch.rsqrt(y + 1e-3)", "torch.reciprocal(y + 1e-2)", "1.0 / (y + 1e-2)",
                      "torch.pow(y, 0.3)", "y ** -0.25", "torch.pow(y, self.small)",
                      "torch.log(torch.cat([y, y + 1.0], 1).view(-1, 2, 24)[:, 0].contiguous())",
                      "torch.exp(-y) / (y + 1e-2)", "torch.log(y.abs().pow(2) + 1e-6)",
                      "torch.log(torch.clamp(y.view(-1, 24).abs() ** 1.5, min=1e-6))",
                      "torch.log(torch.max(y, self.least.detach()))", "torch.log(torch.clamp(y, self.least))",
                      "torch.log(torch.where(y > 1e-4, y, self.least))",
                      "torch.log(torch.square(y.abs()) + torch.square(y.abs() + 1e-3))",
                      "torch.log(torch.sqrt(y.abs() ** 2 + 1e-8))", "y.abs().pow(2) ** 0.2"));

TEST_P(Amplified, ValuesOfManySizesKeepTheSmallOnes) {
  const at::NoGradGuard no_grad;
  const Module model = after_a_layer(GetParam());
  for (const char* engine : {"x86", "onednn"}) {
    const EngineHold hold(engine_of(backend_config(engine)));
    const Module quantized = testing::best_model(model, power(), engine);
    EXPECT_EQ(testing::count(quantized, "aten::linear"), 1) << engine;
    EXPECT_GT(testing::sqnr(testing::run(model, power()), testing::run(quantized, power())), 25) << engine;
  }
}

class NotAmplified : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Functions, NotAmplified,
                         ::testing::Values("torch.exp(y / 2000.0)",
                                           "y / torch.sqrt(torch.mean(y.abs(), 1, True))", "torch.pow(y, 3)",
                                           "y / 8.0", "torch.tanh(y)", "y / (1.0 + y.abs())",
                                           "torch.sqrt(y.abs() ** 2)", "torch.log(torch.exp(y / 2000.0))"));

TEST_P(NotAmplified, OtherFunctionsLeaveTheLayerInInt8) {
  const at::NoGradGuard no_grad;
  EXPECT_EQ(testing::count(testing::best_model(after_a_layer(GetParam()), power(), "x86"), "aten::linear"),
            0);
}

/// Power spectrum → filter bank → magnitude, squared → logarithm → a small network.
Module mel_front_end() {
  torch::manual_seed(10);
  const at::NoGradGuard no_grad;
  Module model = testing::user_module("Mel");
  Module bank = testing::conv2d(64, 24, 1);
  bank.attr("weight").toTensor().uniform_(0, 1).mul_(at::rand({24, 64, 1, 1}) < 0.15);
  bank.attr("bias").toTensor().zero_();
  model.register_module("bank", bank);
  model.register_module("a", testing::conv2d(1, 16, 3));
  model.register_module("b", testing::conv2d(16, 16, 3));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.log(torch.clamp(self.bank.forward(x).abs() ** 2, min=1e-10)).permute(0, 2, 1, 3)\n"
      "  return self.b.forward(torch.relu(self.a.forward(y)))\n");
  return model;
}

TEST(Mel, TheFilterBankAheadOfALogarithmStaysFloat) {
  const at::NoGradGuard no_grad;
  const Module model = mel_front_end();
  const at::Tensor spectrum = (at::randn({4, 64, 1, 40}) * 3).exp();
  for (const char* engine : {"x86", "onednn"}) {
    const EngineHold hold(engine_of(backend_config(engine)));
    const Module quantized = testing::best_model(model, spectrum, engine);
    EXPECT_EQ(testing::count(quantized, "aten::conv2d"), 1) << engine;
    EXPECT_GT(testing::sqnr(testing::run(model, spectrum), testing::run(quantized, spectrum)), 25) << engine;
  }
}

TEST(AmplifiedInFx, RecipeFxRoundsAsPyTorchDoes) {
  const Module model = after_a_layer("torch.log(y + 1e-6)");
  Prepared prepared =
      prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{power()}});
  EXPECT_EQ(testing::count(convert(prepared, backend_config("x86")), "aten::linear"), 0);
}

}  // namespace amplified_test
}  // namespace tsq
