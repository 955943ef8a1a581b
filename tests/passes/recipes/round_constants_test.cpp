// Constants are rounded once, when the model is lowered, and layers whose inputs come out of containers are
// quantized.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <array>
#include <string>

#include "support/best_model.h"
#include "support/rounded_constants.h"
#include "support/small_models.h"

namespace tsq {
namespace round_constants_test {

using testing::count;
using testing::rounded_constants;
using torch::jit::Module;

constexpr std::array kEngines{"x86", "fbgemm", "onednn", "qnnpack"};

at::Tensor rows() {
  torch::manual_seed(2);
  return torch::randn({1, 6, 64});
}

/// Linear layers `first` and `second`, a parameter `p` of 64 values, and `forward`.
Module model_of(const std::string& forward) {
  torch::manual_seed(1);
  Module model = testing::user_module("Constants");
  model.register_module("first", testing::linear(64, 64));
  model.register_module("second", testing::linear(64, 64));
  model.register_parameter("p", torch::randn({64}), /*is_buffer=*/false);
  model.define("def forward(self, x):\n" + forward);
  return model;
}

constexpr const char* kOutOfADict =
    "  d: Dict[str, Tensor] = dict()\n"
    "  for i in range(x.size(0)):\n"
    "    d[str(i)] = self.first.forward(x)\n"
    "  return self.second.forward(d['0'])\n";
constexpr const char* kOutOfAList =
    "  l: List[Tensor] = []\n"
    "  for i in range(x.size(0)):\n"
    "    l += [self.first.forward(x)]\n"
    "  return self.second.forward(l[0])\n";
constexpr const char* kWrittenInPlace =
    "  t = torch.zeros([x.size(1), 64])\n"
    "  t[:, 0::2] = torch.sin(torch.arange(x.size(1), dtype=6).unsqueeze(1) / torch.arange(1, 33))\n"
    "  return self.first.forward(x) + self.second.forward(t.unsqueeze(0))\n";
constexpr const char* kOfASize =
    "  return self.first.forward(x) + self.second.forward(torch.ones([x.size(1), 64]))\n";

Module fx_model(const Module& model, const std::string& engine, Module* reference = nullptr) {
  const BackendConfig backend = backend_config(engine);
  Prepared prepared = prepare(model, default_qconfig_mapping(engine), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{rows()}});
  const Reference converted = convert_to_reference(prepared, backend);
  if (reference != nullptr) *reference = converted.module();
  return lower(converted, backend);
}

TEST(ObserveLayerInputs, ValuesOutOfContainersAreQuantizedInFrontOfALayer) {
  for (const char* forward : {kOutOfADict, kOutOfAList, kWrittenInPlace, kOfASize}) {
    const Module model = model_of(forward);
    const Module lowered = testing::best_model(model, rows(), "x86");
    EXPECT_EQ(count(lowered, "aten::linear"), 0U) << forward;
    EXPECT_EQ(rounded_constants(lowered), 0U) << forward;
    EXPECT_GT(testing::sqnr(testing::run(model, rows()), testing::run(lowered, rows())), 30) << forward;
  }
}

TEST(RoundConstants, WeightsOfLayersThatReadFloatValuesAreRoundedOnceInRecipeFx) {
  for (const char* engine : kEngines) {
    for (const char* forward : {kOutOfADict, kOutOfAList, kWrittenInPlace, kOfASize}) {
      Module reference("unset");
      const Module lowered = fx_model(model_of(forward), engine, &reference);
      EXPECT_GT(rounded_constants(reference), 0U) << forward;
      EXPECT_EQ(rounded_constants(lowered), 0U) << engine << forward;
    }
  }
}

TEST(RoundConstants, TheValuesAreThoseOfTheReference) {
  Module reference("unset");
  const Module lowered =
      fx_model(model_of("  return self.first.forward(torch.ones([x.size(1), 64]))\n"), "x86", &reference);
  EXPECT_TRUE(at::equal(testing::run(reference, rows()), testing::run(lowered, rows())));
}

TEST(RoundConstants, AParameterThatIsAddedIsAQuantizedTensor) {
  const Module lowered =
      fx_model(model_of("  return self.second.forward(self.first.forward(x) + self.p)\n"), "x86");
  EXPECT_EQ(count(lowered, "quantized::add"), 1U);
  EXPECT_EQ(rounded_constants(lowered), 0U);
}

TEST(RoundConstants, CallsOfOneLayerShareItsRoundedWeight) {
  const Module lowered = fx_model(
      model_of(
          "  t = torch.ones([x.size(1), 64])\n  return self.first.forward(t) + self.first.forward(t + 1)\n"),
      "x86");
  std::size_t matrices = 0;
  for (const auto& attribute : lowered.named_attributes())
    matrices += attribute.value.isTensor() && attribute.value.toTensor().dim() == 2;
  EXPECT_EQ(matrices, 1U);
}

TEST(RoundConstants, WhatDependsOnTheInputIsRoundedInEachRun) {
  const Module lowered =
      fx_model(model_of("  return self.second.forward(self.first.forward(x) + self.p * x.sum())\n"), "x86");
  EXPECT_GT(count(lowered, "aten::quantize_per_tensor"), 1U);
}

/// Attributes that the model writes are no constants.
TEST(RoundConstants, StateIsRoundedInEachRun) {
  Module model = testing::user_module("State");
  model.register_module("first", testing::linear(64, 64));
  model.register_buffer("s", torch::full({64}, -1.0));
  model.define(
      "def forward(self, x):\n"
      "  y = self.first.forward(x) + self.s\n"
      "  self.s.add_(1)\n"
      "  return self.first.forward(y)\n");
  Module lowered = fx_model(model, "x86");
  const at::Tensor first = testing::run(lowered, rows());
  EXPECT_FALSE(at::equal(first, testing::run(lowered, rows())));
}

}  // namespace round_constants_test
}  // namespace tsq
