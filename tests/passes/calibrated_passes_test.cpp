// Passes after calibration that give ranges to others and correct biases: what each changes, and what it
// leaves alone.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include "ir/analysis.h"
#include "ir/methods.h"
#include "observers/observer_module.h"
#include "passes/place/passes.h"
#include "passes/ranges/passes.h"
#include "passes/weights/passes.h"
#include "support/before_pass.h"
#include "support/small_models.h"

namespace tsq {
namespace calibrated_passes_test {

using testing::before_pass;
using testing::CalibratedModel;
using testing::call_node;
using torch::jit::Module;

/// `methods` may use the convolutions first and second (4 to 4 channels).
Module two_layers(const std::string& methods) {
  torch::manual_seed(1);
  Module model = testing::user_module("Layers");
  for (const char* name : {"first", "second"}) model.register_module(name, testing::conv2d(4, 4, 3));
  model.define(methods);
  model.eval();
  return model;
}

at::Tensor images() {
  torch::manual_seed(2);
  return torch::randn({2, 4, 8, 8});
}

/// The observers in the methods beside forward, with data or without.
std::size_t observers_of_methods(const ir::Model& model, bool with_data) {
  std::size_t found = 0;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    found += ir::is_observer(node) && !ir::method_of(node).empty() &&
             saw_data(*ir::observer_of(model, node).module) == with_data;
  }
  return found;
}

/// Before settle_methods, in recipe fx.
CalibratedModel with_method(const std::string& methods) {
  Prepared prepared = prepare(two_layers(methods), default_qconfig_mapping("x86"), backend_config("x86"),
                              {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{images()}});
  return before_pass(prepared, "settle_methods");
}

TEST(SettleMethods, AMethodThatForwardCallsTakesItsRanges) {
  auto [model, context] = with_method(
      "def encode(self, x):\n  return torch.relu(self.first.forward(x))\n"
      "def forward(self, x):\n  return self.second.forward(self.encode(x))\n");
  const std::size_t observers = observers_of_methods(model, /*with_data=*/false);
  EXPECT_GT(observers, 0U);
  EXPECT_TRUE(passes::settle_methods(model, context));
  EXPECT_EQ(observers_of_methods(model, /*with_data=*/true), observers);
  EXPECT_FALSE(passes::settle_methods(model, context)) << "they have ranges now";
}

TEST(SettleMethods, WhatForwardDoesNotRunStaysFloat) {
  auto [model, context] = with_method(
      "def forward(self, x):\n  return self.first.forward(x)\n"
      "def decode(self, x):\n  return self.second.forward(x)\n");
  EXPECT_TRUE(ir::record_of(model, call_node(model, "second"))->observed);
  EXPECT_TRUE(passes::settle_methods(model, context));
  EXPECT_EQ(ir::record_of(model, call_node(model, "second"))->reason, ir::Reason::NotReached);
  EXPECT_TRUE(passes::leave_unreached(model, context));
  EXPECT_FALSE(ir::record_of(model, call_node(model, "second"))->observed);
  EXPECT_TRUE(ir::record_of(model, call_node(model, "first"))->observed);
}

TEST(SettleMethods, WhatALayerMakesOfOtherValuesHasNoRange) {
  auto [model, context] = with_method(
      "def forward(self, x):\n  return self.second.forward(torch.relu(self.first.forward(x)))\n"
      "def raw(self, x):\n  return self.second.forward(self.first.forward(x))\n");
  const std::size_t observers = observers_of_methods(model, /*with_data=*/false);
  EXPECT_TRUE(passes::settle_methods(model, context));
  EXPECT_EQ(observers, 3U);
  EXPECT_EQ(observers_of_methods(model, /*with_data=*/true), 2U)
      << "x and first(x), of which FX fuses no torch.relu";
  EXPECT_EQ(observers_of_methods(model, /*with_data=*/false), 0U);
  EXPECT_TRUE(passes::leave_unreached(model, context));
}

TEST(SettleMethods, AnArgumentOfWhichForwardHasNoneHasNoRange) {
  auto [model, context] = with_method(
      "def forward(self, x):\n  return self.second.forward(torch.relu(self.first.forward(x)))\n"
      "def second_alone(self, x):\n  return self.second.forward(x)\n");
  EXPECT_TRUE(passes::settle_methods(model, context));
  EXPECT_EQ(observers_of_methods(model, /*with_data=*/true), 0U);
  EXPECT_EQ(observers_of_methods(model, /*with_data=*/false), 0U);
}

TEST(SettleMethods, TheSameOperatorsOfTheSameArgumentHaveTheRangesOfForward) {
  auto [model, context] = with_method(
      "def forward(self, x, scale: float = 2.0):\n"
      "  y = torch.relu(self.first.forward(x.flip([3])))\n"
      "  return self.second.forward(y + x) * scale\n"
      "def tail(self, y):\n"
      "  z = torch.relu(self.first.forward(y))\n  return self.second.forward(y + z), z\n");
  EXPECT_TRUE(passes::settle_methods(model, context));
  EXPECT_GE(observers_of_methods(model, /*with_data=*/true), 2U) << "y and z";
}

/// The observer of what a layer returns.
std::size_t range_of(const ir::Model& model, const char* layer) {
  return ir::observer_index(testing::output_observer(call_node(model, layer)));
}

CalibratedModel compared(const std::string& result) {
  return before_pass(
      two_layers("def forward(self, x):\n  a = self.first.forward(x)\n  b = self.second.forward(x)\n"
                 "  return " +
                 result + "\n"),
      images(), "x86", "share_ranges_of_extremes");
}

TEST(ShareRangesOfExtremes, BothThatAreComparedTakeTheRangeOfTheResult) {
  auto [model, context] = compared("self.first.forward(torch.maximum(a, b))");
  EXPECT_NE(range_of(model, "first"), range_of(model, "second"));
  EXPECT_TRUE(passes::share_ranges_of_extremes(model, context));
  const ir::Node* result = testing::output_observer(testing::node_of_kind(model, "aten::maximum"));
  EXPECT_EQ(range_of(model, "first"), ir::observer_index(result));
  EXPECT_EQ(range_of(model, "second"), ir::observer_index(result));
  EXPECT_FALSE(passes::share_ranges_of_extremes(model, context));
}

TEST(ShareRangesOfExtremes, AddendsKeepTheirs) {
  auto [model, context] = compared("self.first.forward(a + b)");
  EXPECT_FALSE(passes::share_ranges_of_extremes(model, context));
  EXPECT_NE(range_of(model, "first"), range_of(model, "second"));
}

/// A reference of two convolutions.
CalibratedModel reference() {
  Prepared prepared =
      prepare(two_layers("def forward(self, x):\n  return self.second.forward(self.first.forward(x))\n"),
              default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{images()}});
  CalibratedModel result = testing::calibrated_model(prepared);
  testing::make_reference(result);
  return result;
}

TEST(CorrectMeanErrors, AKnownErrorIsTakenOffTheBias) {
  auto [model, context] = reference();
  const at::Tensor first = testing::layer(model, "first").bias.detach().clone();
  const at::Tensor second = testing::layer(model, "second").bias.detach().clone();
  model.mean_errors.emplace(call_node(model, "first")->output()->debugName(), torch::ones({4}, at::kDouble));
  EXPECT_TRUE(passes::correct_mean_errors(model, context));
  EXPECT_TRUE(at::allclose(testing::layer(model, "first").bias, first - 1));
  EXPECT_TRUE(at::equal(testing::layer(model, "second").bias, second));
}

TEST(CorrectMeanErrors, WithoutErrorsBiasesStay) {
  auto [model, context] = reference();
  const at::Tensor before = testing::layer(model, "first").bias;
  EXPECT_FALSE(passes::correct_mean_errors(model, context));
  EXPECT_TRUE(testing::layer(model, "first").bias.is_same(before));
}

}  // namespace calibrated_passes_test
}  // namespace tsq
