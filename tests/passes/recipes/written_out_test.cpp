// Operators that exporters write out as several become one in recipe best.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <string>

#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace written_out_test {

using testing::count;
using torch::jit::Module;

at::Tensor input() {
  torch::manual_seed(3);
  return torch::randn({64, 16});
}

/// `expression` of h between two linear layers; it may use self.weight and self.bias (16 numbers).
Module between_layers(const std::string& expression) {
  torch::manual_seed(4);
  Module model = testing::user_module("Between");
  model.register_module("front", testing::linear(16, 16));
  model.register_module("back", testing::linear(16, 16));
  model.register_parameter("weight", torch::rand({16}) + 0.5, false);
  model.register_parameter("bias", torch::randn({16}), false);
  model.define("def forward(self, x):\n  h = self.front.forward(x)\n  return self.back.forward(" +
               expression + ")\n");
  return model;
}

Module quantized(const Module& model) { return testing::best_model(model, input(), "x86"); }

double sqnr(const Module& model, const Module& lowered) {
  return testing::sqnr(testing::run(model, input()), testing::run(lowered, input()));
}

TEST(WrittenOut, GeluIsOneOperatorHoweverItIsMultiplied) {
  for (const char* expression :
       {"h * 0.5 * (1 + torch.erf(h / 1.41421356))", "h * (torch.erf(h * 0.70710678) + 1) / 2",
        "0.5 * (h * (torch.erf(h / 1.41421356) + 1.0))"}) {
    const Module model = between_layers(expression);
    const Module lowered = quantized(model);
    EXPECT_EQ(count(lowered, "aten::gelu"), 1U) << expression;
    EXPECT_EQ(count(lowered, "aten::erf") + count(lowered, "aten::mul"), 0U) << expression;
    EXPECT_GT(sqnr(model, lowered), 30) << expression;
  }
}

TEST(WrittenOut, WhatOnlyLooksLikeGeluStaysAsItIs) {
  for (const char* expression :
       {"h * 0.5 * (1 + torch.erf(h / 2))", "h * 0.4 * (1 + torch.erf(h / 1.41421356))",
        "x * 0.5 * (1 + torch.erf(h / 1.41421356))", "h * 0.5 * (2 + torch.erf(h / 1.41421356))"}) {
    const Module model = between_layers(expression);
    const Module lowered = quantized(model);
    EXPECT_EQ(count(lowered, "aten::erf"), 1U) << expression;
    EXPECT_GT(sqnr(model, lowered), 25) << expression;
  }
}

std::string centered(const std::string& dim = "-1") { return "(h - h.mean([" + dim + "], True))"; }

std::string deviation(const std::string& square) {
  return "torch.sqrt(torch.mean(" + square + ", [-1], True) + 1e-5)";
}

TEST(WrittenOut, LayerNormIsOneOperator) {
  const std::string power = "torch.pow(" + centered() + ", 2)";
  for (const std::string& expression :
       {centered() + " / " + deviation(power) + " * self.weight + self.bias",
        "self.bias + self.weight * (" + centered() + " / " + deviation(power) + ")",
        centered() + " / " + deviation(power) + " * self.weight"}) {
    const Module model = between_layers(expression);
    const Module lowered = quantized(model);
    EXPECT_EQ(count(lowered, "aten::layer_norm"), 1U) << expression;
    EXPECT_EQ(count(lowered, "aten::mean") + count(lowered, "aten::sqrt"), 0U) << expression;
    EXPECT_GT(sqnr(model, lowered), 30) << expression;
  }
}

TEST(WrittenOut, WhatOnlyLooksLikeLayerNormStaysAsItIs) {
  const std::string power = "torch.pow(" + centered() + ", 2)";
  for (const std::string& expression :
       {centered("0") + " / " + deviation(power) + " * self.weight",
        centered() + " / " + deviation("torch.pow(h, 2)") + " * self.weight",
        centered() + " / " + deviation("torch.pow(" + centered() + ", 3).abs()") + " * self.weight"}) {
    const Module model = between_layers(expression);
    const Module lowered = quantized(model);
    EXPECT_EQ(count(lowered, "aten::layer_norm"), 0U) << expression;
    EXPECT_GT(sqnr(model, lowered), 25) << expression;
  }
}

}  // namespace written_out_test
}  // namespace tsq
