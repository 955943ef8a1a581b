// Convolutions whose kernel returns float or does the activation after it: rounded once.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <sstream>

#include "support/best_model.h"
#include "support/processor.h"
#include "support/small_models.h"

namespace tsq {
namespace pointwise_test {

using testing::count;
using testing::has_vnni;
using testing::sqnr;
using torch::jit::Module;

constexpr const char* kPointwise = "onednn::qconv2d_pointwise";
constexpr const char* kBytes = "aten::int_repr";

/// `body` computes y from self.narrow (4 → 32), self.wide (32 → 64), self.back (64 → 32), self.slopes (32)
/// and x.
Module convolutions(const std::string& body) {
  torch::manual_seed(1);
  Module model = testing::user_module("Convolutions");
  model.register_module("narrow", testing::conv2d(4, 32, 3));
  model.register_module("wide", testing::conv2d(32, 64, 1));
  model.register_module("back", testing::conv2d(64, 32, 1));
  model.register_parameter("slopes", torch::rand({32}), false);
  model.define("def forward(self, x):\n" + body + "  return y\n");
  return model;
}

at::Tensor image() {
  torch::manual_seed(2);
  return torch::randn({2, 4, 64, 64});
}

Reference reference_of(const Module& model, const std::string& engine) {
  return testing::best_reference(model, image(), engine);
}

Module quantized(const Module& model, const std::string& engine = "x86") {
  return testing::best_model(model, image(), engine);
}

Module quantized_by_its_times(const Module& model) {
  return testing::best_model(model, image(), "x86", machine_profile("avx512-vnni"));
}

at::Tensor run(const Module& model) { return testing::run(model, image()); }

constexpr const char* kPReLU = "  y = torch.prelu(self.narrow.forward(x), self.slopes)\n";
constexpr const char* kHardswish =
    "  y = self.back.forward(torch.hardswish(self.wide.forward(torch.relu(self.narrow.forward(x)))))\n";

TEST(Pointwise, BetweenAConvolutionAndAPReLUNothingIsRounded) {
  const Module model = convolutions(kPReLU);
  for (const char* engine : {"x86", "onednn"}) {
    const Module lowered = quantized(model, engine);
    EXPECT_EQ(count(lowered, kPointwise), 1U) << engine;
    EXPECT_EQ(count(lowered, "aten::quantize_per_tensor"), 1U) << engine;
    EXPECT_EQ(count(lowered, "quantized::prelu"), 0U) << engine;
    EXPECT_GT(sqnr(run(model), run(lowered)), has_vnni() ? 38 : 36) << engine;
  }
}

TEST(Pointwise, TheKernelComputesWhatTheReferenceMeans) {
  const Reference reference = reference_of(convolutions(kPReLU), "x86");
  const at::Tensor meant = run(reference.module());
  EXPECT_TRUE(at::allclose(run(lower(reference, backend_config("x86"))), meant, 1e-5, 1e-5));
}

TEST(Pointwise, EnginesWithoutTheKernelRoundTheOutput) {
  const Module model = convolutions(kPReLU);
  for (const char* engine : {"fbgemm", "qnnpack"}) {
    const Module lowered = quantized(model, engine);
    EXPECT_EQ(count(lowered, kPointwise), 0U) << engine;
    EXPECT_EQ(count(lowered, "quantized::conv2d"), 1U) << engine;
    EXPECT_GT(sqnr(run(model), run(lowered)), 30) << engine;
  }
}

TEST(Pointwise, EnginesWithoutTheKernelDoTheActivationOnBytesWhateverEngineIsSet) {
  // Channels of unlike size would be multiplied in front of an activation in float.
  const Module model = convolutions(kHardswish);
  const torch::NoGradGuard no_grad;
  model.attr("wide").toModule().attr("weight").toTensor().mul_(
      torch::logspace(-1.5, 0, 64).reshape({64, 1, 1, 1}));
  for (const char* engine : {"fbgemm", "qnnpack"}) {
    const Module lowered = quantized(model, engine);
    EXPECT_EQ(count(lowered, "quantized::hardswish"), 1U) << engine;
    EXPECT_EQ(count(lowered, "aten::hardswish"), 0U) << engine;
  }
}

TEST(Pointwise, AnActivationIsDoneByTheKernelAndRoundedOnce) {
  const Module model = convolutions("  y = self.wide.forward(torch.hardswish(self.narrow.forward(x)))\n");
  const Module lowered = quantized_by_its_times(model);
  EXPECT_EQ(count(lowered, kPointwise), 1U);
  EXPECT_EQ(count(lowered, "aten::hardswish") + count(lowered, "quantized::hardswish"), 0U);
  EXPECT_EQ(count(lowered, "quantized::conv2d"), 1U);
  EXPECT_GT(sqnr(run(model), run(lowered)), has_vnni() ? 34 : 32);
}

TEST(Pointwise, ChannelsOfUnlikeSizeAreNotMultipliedBetweenTheActivationAndItsRounding) {
  const Module model = convolutions("  y = self.wide.forward(torch.silu(self.narrow.forward(x)))\n");
  const torch::NoGradGuard no_grad;
  model.attr("narrow").toModule().attr("weight").toTensor().mul_(
      torch::logspace(-3, 1, 32).reshape({32, 1, 1, 1}));
  const Module lowered = quantized_by_its_times(model);
  EXPECT_EQ(count(lowered, kPointwise), 1U);
  EXPECT_EQ(count(lowered, "aten::mul"), 0U);
}

TEST(Pointwise, WhatFloatOperatorsAloneReadIsNotRounded) {
  const Module model = convolutions(
      "  a = self.narrow.forward(x).permute([0, 2, 3, 1])\n"
      "  y = torch.softmax(torch.stack([a, "
      "self.back.forward(self.wide.forward(torch.relu(self.narrow.forward(x))))"
      ".permute([0, 2, 3, 1])], 4), 4)\n");
  for (const char* engine : {"x86", "onednn"}) {
    const Reference reference = reference_of(model, engine);
    const Module lowered = lower(reference, backend_config(engine));
    EXPECT_GE(count(lowered, kPointwise), 1U) << engine;
    EXPECT_EQ(count(lowered, kPointwise) + count(lowered, "quantized::conv2d"), 3U) << engine;
    EXPECT_EQ(count(lowered, "quantized::conv2d_relu"), 1U) << engine;
    EXPECT_GT(sqnr(run(reference.module()), run(lowered)), 40) << engine;
  }
}

TEST(Pointwise, SeveralConvolutionsGiveFloatToOneOperator) {
  const Module lowered = quantized(convolutions(
      "  y = torch.softmax(torch.stack([self.narrow.forward(x), self.narrow.forward(-x)], 4), 4)\n"));
  EXPECT_EQ(count(lowered, kPointwise), 2U);
  EXPECT_EQ(count(lowered, "aten::dequantize"), 0U);
}

TEST(Pointwise, PaddingInFrontOfAConvolutionStaysOnBytes) {
  const Module model = convolutions(
      "  y = self.wide.forward(torch.constant_pad_nd(self.narrow.forward(x), [1, 1, 1, 1], 0))\n");
  EXPECT_EQ(count(quantized(model), kPointwise), 0U);
  EXPECT_EQ(count(quantized(model), "aten::constant_pad_nd"), 0U);
}

TEST(Pointwise, TheNextKernelReadsTheBytesAsTheyAre) {
  const Module model = convolutions(
      "  y = "
      "torch.silu(self.back.forward(torch.silu(self.wide.forward(torch.silu(self.narrow.forward(x))))))\n");
  // Where float operators take so long, a decibel is worth more than bytes.
  const BackendConfig backend = backend_config("x86");
  Prepared prepared =
      prepare(model, best_qconfig_mapping("x86"), backend, {.machine = testing::slow_in_float()});
  calibrate(prepared, std::vector<Sample>{{image()}});
  const Module lowered = convert(prepared, backend);
  EXPECT_EQ(count(lowered, kPointwise), 3U);
  EXPECT_EQ(count(lowered, kBytes), 1U);
  EXPECT_EQ(count(lowered, "aten::_make_per_tensor_quantized_tensor"), 0U);
  EXPECT_GT(sqnr(run(model), run(lowered)), 30);
}

TEST(Pointwise, WhereTheBytesOfTheInputCostMoreThanTheActivationItIsAsBefore) {
  // 64 channels in, 32 out.
  const Module model = convolutions(
      "  y = "
      "torch.hardswish(self.back.forward(torch.relu(self.wide.forward(torch.relu(self.narrow.forward(x))))))"
      "\n"
      "  y = self.wide.forward(y)\n");
  const Module lowered = quantized(model);
  EXPECT_EQ(count(lowered, kPointwise), 0U);
  EXPECT_EQ(count(lowered, "quantized::hardswish"), 1U);
}

TEST(Pointwise, WithoutAKernelThatDoesTheActivationASignalIsRoundedUnlessTheOtherKernelIsSlow) {
  for (const int64_t groups : {16, 128}) {
    torch::manual_seed(4);
    Module model = testing::user_module("Signal");
    model.register_parameter("weight", torch::randn({groups, 1, 5}), false);
    model.register_attribute("groups", c10::IntType::get(), groups);
    model.define(
        "def forward(self, x):\n"
        "  x = torch.flatten(x, 2).repeat([1, self.groups // 4, 1])\n"
        "  return torch.silu(torch.conv1d(x, self.weight, None, [1], [2], [1], " +
        std::to_string(groups) + "))\n");
    if (groups > 100) {
      EXPECT_EQ(count(quantized(model, "x86"), kPointwise), 1U);
    }
    EXPECT_EQ(count(quantized(model, "onednn"), "onednn::qconv1d_pointwise"), 0U);
    EXPECT_GT(sqnr(run(model), run(quantized(model, "x86"))), 30);
  }
}

TEST(Pointwise, SiLUWrittenOutIsOneOperator) {
  const Module model =
      convolutions("  h = self.narrow.forward(x)\n  y = self.wide.forward(h * torch.sigmoid(h))\n");
  const Module lowered = quantized_by_its_times(model);
  EXPECT_EQ(count(lowered, kPointwise), 1U);
  EXPECT_EQ(count(lowered, "aten::sigmoid") + count(lowered, "aten::mul"), 0U);
  EXPECT_GT(sqnr(run(model), run(lowered)), has_vnni() ? 34 : 32);
}

TEST(Pointwise, HardswishWrittenOutIsOneOperatorHoweverItIsSpelt) {
  for (const char* spelling : {"h * torch.relu6(h + 3) / 6", "torch.hardtanh(h + 3, 0, 6) * h * (1. / 6.)",
                               "h * (torch.clamp(h + 3.0, 0, 6) / 6.0)"}) {
    const Module model = convolutions("  h = self.narrow.forward(x)\n  y = self.wide.forward(" +
                                      std::string(spelling) + ")\n");
    const Module lowered = quantized_by_its_times(model);
    EXPECT_EQ(count(lowered, kPointwise), 1U) << spelling;
    EXPECT_EQ(count(lowered, "aten::mul") + count(lowered, "aten::div") + count(lowered, "aten::add"), 0U)
        << spelling;
    EXPECT_GT(sqnr(run(model), run(lowered)), has_vnni() ? 34 : 32) << spelling;
  }
}

TEST(Pointwise, EnginesWithoutTheKernelGatherWhatIsWrittenOutAsWell) {
  for (const auto& [spelling, activation] : {std::pair("h * torch.relu6(h + 3) / 6", "quantized::hardswish"),
                                             std::pair("h * torch.sigmoid(h)", "aten::silu")}) {
    const Module model = convolutions("  h = self.narrow.forward(x)\n  y = self.wide.forward(" +
                                      std::string(spelling) + ")\n");
    for (const char* engine : {"fbgemm", "qnnpack"}) {
      const Module lowered = quantized(model, engine);
      EXPECT_EQ(count(lowered, activation), 1U) << engine;
      EXPECT_EQ(count(lowered, "aten::mul") + count(lowered, "quantized::mul"), 0U) << engine << spelling;
      EXPECT_GT(sqnr(run(model), run(lowered)), 30) << engine << spelling;
    }
  }
}

TEST(Pointwise, WhatOnlyLooksLikeAnActivationStaysAsItIs) {
  for (const char* other :
       {"h * torch.relu6(h + 2) / 6", "h * torch.relu6(h + 3) / 5", "torch.relu6(h + 3) * (h + 1) / 6",
        "h * torch.sigmoid(h + 1)", "h * torch.clamp(h + 3, 0, 5) / 6"}) {
    const Module model = convolutions("  h = self.narrow.forward(x)\n  y = " + std::string(other) + "\n");
    EXPECT_GT(sqnr(run(model), run(quantized(model))), 25) << other;
  }
}

TEST(Pointwise, AnActivationWhoseGateIsReadElsewhereStaysWrittenOut) {
  const Module model =
      convolutions("  h = self.narrow.forward(x)\n  gate = torch.sigmoid(h)\n  y = h * gate + gate\n");
  const Module lowered = quantized(model);
  EXPECT_EQ(count(lowered, "aten::silu"), 0U);
  EXPECT_GT(sqnr(run(model), run(lowered)), 25);
}

TEST(Pointwise, ALoadedFilePacksAgainAndGivesTheSame) {
  const Module lowered = quantized(convolutions(kPReLU));
  std::stringstream file;
  lowered.save(file);
  const Module loaded = torch::jit::load(file);
  EXPECT_TRUE(run(loaded).equal(run(lowered)));
  EXPECT_TRUE(run(loaded.clone()).equal(run(lowered)));
}

TEST(Pointwise, AViewReadsItsOutputWhateverTheLayout) {
  const Module model =
      convolutions("  y = torch.prelu(self.narrow.forward(x), self.slopes)\n  y = y.view([y.size(0), -1])\n");
  EXPECT_GT(sqnr(run(model), run(quantized(model))), has_vnni() ? 38 : 36);
}

TEST(Pointwise, OtherPaddingIsDoneInFrontOfTheKernel) {
  torch::manual_seed(3);
  Module model = testing::user_module("Reflected");
  model.register_parameter("weight", torch::randn({32, 4, 3, 3}), false);
  model.register_parameter("slopes", torch::rand({32}), false);
  model.define(
      "def forward(self, x):\n"
      "  x = torch.pad(x, [1, 1, 1, 1], 'reflect')\n"
      "  return torch.prelu(torch.conv2d(x, self.weight, None, [1, 1]), self.slopes)\n");
  const Module lowered = quantized(model);
  EXPECT_EQ(count(lowered, kPointwise), 1U);
  EXPECT_GT(sqnr(run(model), run(lowered)), has_vnni() ? 38 : 36);
}

TEST(Pointwise, RecipeFxRoundsAsFxDoes) {
  const Module model = convolutions(kHardswish);
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{image()}});
  const Module lowered = convert(prepared, backend);
  EXPECT_EQ(count(lowered, kPointwise), 0U);
  EXPECT_EQ(count(lowered, "quantized::conv2d_relu") + count(lowered, "quantized::conv2d"), 3U);
}

}  // namespace pointwise_test
}  // namespace tsq
