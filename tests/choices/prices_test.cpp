// What an operator takes in float and in int8: its kernel by the profile, and the roundings that its
// neighbours make necessary as they are placed.

#include "backends/choices/prices.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/backends.h>
#include <tsq/machine_profile.h>
#include <tsq/quantize.h>
#include <tsq/recipe.h>

#include <memory>

#include "passes/place/passes.h"
#include "support/before_pass.h"
#include "support/small_models.h"

namespace tsq {
namespace prices_test {

/// Nanoseconds of a call, whatever its sizes.
constexpr double kFloatLayer = 1000;
constexpr double kInt8Layer = 400;
constexpr double kQuantize = 30;
constexpr double kDequantize = 7;

std::shared_ptr<const MachineProfile> profile() {
  MachineProfile profile{.name = "of a test"};
  const auto takes = [](double call) { return MachineProfile::Coefficients{{"call", call}}; };
  profile.by_threads[1] = {{"aten::conv2d", takes(kFloatLayer)},
                           {"x86 quantized::conv2d", takes(kInt8Layer)},
                           {"aten::quantize_per_tensor", takes(kQuantize)},
                           {"x86 aten::dequantize", takes(kDequantize)},
                           {"fused float convolution", takes(2 * kFloatLayer)},
                           {"fused int8 convolution", takes(2 * kInt8Layer)},
                           {"fused quantize", takes(2 * kQuantize)},
                           {"fused dequantize", takes(2 * kDequantize)}};
  return std::make_shared<const MachineProfile>(std::move(profile));
}

/// one → two → erf, both layers in int8, as the plan places them.
testing::CalibratedModel placed(LoweringTarget runtime = LoweringTarget::Stock) {
  torch::manual_seed(4);
  torch::jit::Module model = testing::user_module("Layers");
  for (const char* name : {"one", "two"}) model.register_module(name, testing::conv2d(64, 64, 3));
  model.define("def forward(self, x):\n  return torch.erf(self.two.forward(self.one.forward(x)))\n");
  testing::CalibratedModel calibrated =
      testing::before_pass(model, torch::randn({1, 64, 32, 32}), "x86", "price_operators");
  calibrated.context.target.machine = profile();
  calibrated.context.target.runtime = runtime;
  for (const char* name : {"one", "two"})
    ir::record_of(calibrated.model, testing::call_node(calibrated.model, name))->placement =
        ir::Placement::Int8;
  return calibrated;
}

OperatorPrice price_of(testing::CalibratedModel& calibrated, const ir::Node* node) {
  passes::price_operators(calibrated.model, calibrated.context);
  const Decision* decision = ir::decision_of(calibrated.model, node);
  EXPECT_TRUE(decision != nullptr && decision->price.has_value());
  return decision->price.value_or(OperatorPrice{});
}

TEST(Prices, ALayerThatReadsFloatPaysForRoundingInInt8) {
  testing::CalibratedModel calibrated = placed();
  const OperatorPrice one = price_of(calibrated, testing::call_node(calibrated.model, "one"));
  EXPECT_DOUBLE_EQ(one.in_int8, kQuantize + kInt8Layer);
  EXPECT_DOUBLE_EQ(one.in_float, kFloatLayer + kQuantize) << "the layer after it reads bytes";
}

TEST(Prices, ALayerThatReadsBytesPaysForFloatsInFloat) {
  testing::CalibratedModel calibrated = placed();
  const OperatorPrice two = price_of(calibrated, testing::call_node(calibrated.model, "two"));
  EXPECT_DOUBLE_EQ(two.in_float, kDequantize + kFloatLayer);
  EXPECT_DOUBLE_EQ(two.in_int8, kInt8Layer + kDequantize) << "erf reads floats";
}

TEST(Prices, ALayerWhoseResultIsNotRoundedReturnsFloats) {
  testing::CalibratedModel calibrated = placed();
  ir::Node* one = testing::call_node(calibrated.model, "one");
  ir::Node* rounding = testing::output_observer(one);
  ASSERT_NE(rounding, nullptr);
  rounding->output()->replaceAllUsesWith(one->output());
  rounding->destroy();
  EXPECT_DOUBLE_EQ(price_of(calibrated, testing::call_node(calibrated.model, "two")).in_float, kFloatLayer);
  EXPECT_DOUBLE_EQ(price_of(calibrated, one).in_float, kFloatLayer);
}

TEST(Prices, ProgramsHaveTimesOfTheirOwn) {
  testing::CalibratedModel calibrated = placed(LoweringTarget::Fused);
  const OperatorPrice one = price_of(calibrated, testing::call_node(calibrated.model, "one"));
  EXPECT_DOUBLE_EQ(one.in_float, 2 * (kFloatLayer + kQuantize));
}

TEST(Prices, WhatHasNoInt8KernelHasNone) {
  testing::CalibratedModel calibrated = placed();
  passes::price_operators(calibrated.model, calibrated.context);
  const Decision* erf =
      ir::decision_of(calibrated.model, testing::node_of_kind(calibrated.model, "aten::erf"));
  ASSERT_NE(erf, nullptr);
  EXPECT_FALSE(erf->price.has_value());
}

TEST(Prices, AreSaidInMicroseconds) {
  EXPECT_EQ(to_text(OperatorPrice{.in_float = 3140, .in_int8 = 14000}), "float 3.14 µs; int8 14 µs");
}

TEST(Prices, TheReportHasThemBesideItsReasons) {
  torch::jit::Module model = testing::user_module("Layer");
  model.register_module("conv", testing::conv2d(8, 8, 3));
  model.define("def forward(self, x):\n  return self.conv.forward(x)\n");
  model.eval();
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend_config("x86"));
  calibrate(prepared, std::vector<Sample>{{torch::randn({1, 8, 12, 12})}});
  const Report report = convert_to_reference(prepared, backend_config("x86"), {}).report();
  EXPECT_NE(report.to_text().find("    price    float "), std::string::npos) << report.to_text();
  EXPECT_GT(report.to_json()["operators"][0]["price"]["float_nanoseconds"].get<double>(), 0);
}

}  // namespace prices_test
}  // namespace tsq
