// Passes of the room ranges, one by one: what each changes, and what it says of it.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include "ir/analysis.h"
#include "observers/observer_module.h"
#include "operators/constant_expressions.h"
#include "passes/context/nodes.h"
#include "passes/ranges/passes.h"
#include "support/before_pass.h"
#include "support/small_models.h"

namespace tsq {
namespace ranges_test {

using testing::before_pass;
using testing::CalibratedModel;
using torch::jit::Module;

Module with_layers(const std::string& forward) {
  torch::manual_seed(1);
  Module model = testing::user_module("Layers");
  model.register_module("first", testing::conv2d(3, 4, 3));
  model.register_module("second", testing::conv2d(4, 4, 3));
  model.define("def forward(self, x, enters: bool = False):\n" + forward);
  return model;
}

Module two_layers() { return with_layers("  return self.second.forward(self.first.forward(x))\n"); }

Module instance_norm() {
  Module norm("__torch__.torch.nn.modules.instancenorm.InstanceNorm2d",
              std::make_shared<torch::jit::CompilationUnit>());
  norm.register_attribute("training", c10::BoolType::get(), false);
  norm.define(
      "def forward(self, x):\n  return torch.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, "
      "True)\n");
  return norm;
}

at::Tensor images() { return torch::randn({2, 3, 8, 8}); }

std::size_t observers_of(const ir::Model& model, const std::string& observer) {
  std::size_t found = 0;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph))
    found += ir::is_observer(node) && ir::observer_of(model, node).spec.observer == observer;
  return found;
}

const ir::NodeRecord& record_of_layer(const ir::Model& model, const std::string& path) {
  return *ir::record_of(model, testing::call_node(model, path));
}

TEST(DropObservedClamps, TakesAwayWhatPrepareHasPutIn) {
  const Module model = with_layers("  return torch.hardswish(self.first.forward(x)).clamp(-1.0, 2.0)\n");
  auto [made, context] = before_pass(model, images(), "x86", "drop_observed_clamps");
  EXPECT_GT(testing::count(made, "aten::clamp"), 1U);
  EXPECT_TRUE(passes::drop_observed_clamps(made, context));
  EXPECT_EQ(testing::count(made, "aten::clamp"), 1U);
  EXPECT_FALSE(passes::drop_observed_clamps(made, context));
}

TEST(TakeChannelStatistics, LayersKnowTheirChannelsAndTheObserversAreGone) {
  const at::Tensor x = images();
  auto [made, context] = before_pass(two_layers(), x, "x86", "take_channel_statistics");
  EXPECT_EQ(observers_of(made, "ChannelStatisticsObserver"), 2U);
  EXPECT_TRUE(passes::take_channel_statistics(made, context));
  EXPECT_EQ(observers_of(made, "ChannelStatisticsObserver"), 0U);
  const ir::ChannelStatistics& input = testing::layer(made, "first").seen.input;
  EXPECT_TRUE(at::allclose(input.mean.to(at::kFloat), x.mean({0, 2, 3}), 1e-4, 1e-6));
  EXPECT_TRUE(at::equal(input.sizes, torch::tensor({2, 3, 8, 8}, at::kLong)));
  EXPECT_FALSE(passes::take_channel_statistics(made, context));
}

TEST(TakeInputProducts, LayersKnowThemAndTheObserversAreGone) {
  const Module model = two_layers();
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend_config("x86"),
                              {.recipe = Recipe::Best, .weight_rounding = WeightRounding::Learned});
  calibrate(prepared, std::vector<Sample>{{images()}});
  auto [made, context] = before_pass(prepared, "take_input_products");
  EXPECT_TRUE(passes::take_input_products(made, context));
  EXPECT_EQ(observers_of(made, "InputProductsObserver"), 0U);
  EXPECT_EQ(testing::count(made, "aten::im2col"), 0U);
  EXPECT_EQ(testing::layer(made, "first").seen.input_products.size(-1), 3 * 3 * 3 + 1);
  EXPECT_FALSE(passes::take_input_products(made, context));
}

TEST(ShareRangesOfExtremes, ChangesNothingWhereNothingIsCompared) {
  auto [made, context] = before_pass(two_layers(), images(), "x86", "share_ranges_of_extremes");
  EXPECT_FALSE(passes::share_ranges_of_extremes(made, context));
}

TEST(SettleUnreached, WhatNoSampleReachesReadsWhatNothingRoundsAndSaysWhy) {
  const Module model =
      with_layers("  y = self.first.forward(x)\n  if enters:\n    y = self.second.forward(y)\n  return y\n");
  auto [made, context] = before_pass(model, images(), "x86", "settle_unreached");
  EXPECT_NE(testing::output_observer(testing::call_node(made, "second")), nullptr);
  EXPECT_TRUE(passes::settle_unreached(made, context));
  EXPECT_EQ(testing::output_observer(testing::call_node(made, "second")), nullptr);
  const ir::NodeRecord& second = record_of_layer(made, "second");
  EXPECT_EQ(second.reason, ir::Reason::NotReached);
  EXPECT_EQ(second.placement, ir::Placement::Undecided);
  EXPECT_EQ(record_of_layer(made, "first").reason, ir::Reason::None);
  EXPECT_FALSE(passes::settle_unreached(made, context));
}

TEST(SettleUnreached, TheEngineDecidesHowManyBitsAnInputHasWhoseRangeIsFoundLater) {
  torch::manual_seed(2);
  Module model = testing::user_module("Twice");
  model.register_module("layer", testing::linear(8, 8));
  model.define(
      "def forward(self, x, enters: bool = False):\n  y = self.layer.forward(x)\n  if enters:\n"
      "    y = self.layer.forward(x.flip([0]) * 2)\n  return y\n");
  for (const std::string engine : {"x86", "qnnpack"}) {
    auto [made, context] = before_pass(model, torch::randn({4, 8}), engine, "settle_unreached");
    EXPECT_TRUE(passes::settle_unreached(made, context));
    const ir::Node* quantize = testing::node_of_kind(made, "aten::quantize_per_tensor_dynamic");
    EXPECT_EQ(torch::jit::toIValue(quantize->input(2))->toBool(), engine == "x86");
  }
}

CalibratedModel before_settling(const Module& model, Recipe recipe) {
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend_config("x86"), {.recipe = recipe});
  calibrate(prepared, std::vector<Sample>{{images()}});
  return before_pass(prepared, "settle_unreached");
}

TEST(SettleUnreached, RecipeFxLeavesOutWhatNoSampleReachesInABranch) {
  const Module model =
      with_layers("  y = self.first.forward(x)\n  if enters:\n    y = self.second.forward(y)\n  return y\n");
  auto [made, context] = before_settling(model, Recipe::Fx);
  EXPECT_TRUE(passes::settle_unreached(made, context));
  EXPECT_EQ(testing::output_observer(testing::call_node(made, "second")), nullptr);
  EXPECT_EQ(record_of_layer(made, "second").reason, ir::Reason::NotReached);
  EXPECT_EQ(record_of_layer(made, "first").reason, ir::Reason::None);
}

TEST(SettleUnreached, RecipeFxKeepsFxsScaleOutsideOfBranches) {
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    auto [made, context] = before_settling(two_layers(), recipe);
    ir::ObserverEntry& entry =
        ir::observer_of(made, testing::output_observer(testing::call_node(made, "first")));
    entry.module = make_observer(entry.spec);
    EXPECT_EQ(passes::settle_unreached(made, context), recipe == Recipe::Best);
  }
}

TEST(BatchInputs, ANormOfSamplesReadsThemAsTheyAreAndSaysWhy) {
  torch::manual_seed(3);
  Module model = testing::user_module("Normed");
  model.register_module("first", testing::conv2d(3, 4, 3));
  model.register_module("norm", instance_norm());
  model.define("def forward(self, x):\n  return self.norm.forward(self.first.forward(x))\n");
  Prepared prepared =
      prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{torch::randn({3, 8, 8})}});
  auto [made, context] = before_pass(prepared, "batch_inputs");
  EXPECT_TRUE(passes::batch_inputs(made, context));
  EXPECT_EQ(record_of_layer(made, "norm").reason, ir::Reason::OfSample);
  EXPECT_EQ(record_of_layer(made, "norm").placement, ir::Placement::Undecided);
  EXPECT_EQ(testing::count(made, "aten::unsqueeze"), 1U);
}

TEST(BatchInputs, ChangesNothingForBatches) {
  auto [made, context] = before_pass(two_layers(), images(), "x86", "batch_inputs");
  EXPECT_FALSE(passes::batch_inputs(made, context));
}

TEST(SettleMethods, ChangesNothingWithoutOtherMethods) {
  auto [made, context] = before_pass(two_layers(), images(), "x86", "settle_methods");
  EXPECT_FALSE(passes::settle_methods(made, context));
}

/// A linear layer whose weight is cast where it is used.
Module cast_weight(const std::string& weight, at::ScalarType dtype = at::kFloat) {
  torch::manual_seed(4);
  Module model = testing::user_module("Cast");
  model.register_attribute("w", c10::TensorType::get(), torch::randn({8, 8}).to(dtype));
  model.define("def forward(self, x):\n  return torch.relu(torch.linear(x, " + weight + "))\n");
  return model;
}

TEST(KnowDtypes, CastsOfParametersToTheDtypeOfWhatCalibrationSawAreConstants) {
  for (const char* weight :
       {"self.w.to(x.dtype)", "self.w.type_as(x)", "self.w.to(x)", "self.w.to(self.w.dtype)"}) {
    auto [made, context] = before_pass(cast_weight(weight), torch::randn({4, 8}), "x86", "know_dtypes");
    EXPECT_TRUE(passes::know_dtypes(made, context)) << weight;
    EXPECT_EQ(testing::count(made, "prim::dtype") + testing::count(made, "aten::type_as"), 0U) << weight;
    const ir::Node* cast = testing::node_of_kind(made, "aten::to");
    EXPECT_EQ(torch::jit::toIValue(cast->input(1))->toInt(), static_cast<int64_t>(at::kFloat)) << weight;
    EXPECT_FALSE(passes::know_dtypes(made, context)) << weight;
  }
}

/// What the graph knows of the weight of its linear layer; undefined: nothing.
at::Tensor known_weight(const ir::Model& model) {
  const ir::Node* layer = testing::node_of_kind(model, "aten::linear");
  const auto known =
      operators::ConstantExpressions(model).value_of(passes::before_observers(layer->input(1)));
  return known ? known->toTensor() : at::Tensor();
}

TEST(KnowDtypes, ADeviceThatACastNamesChangesNothing) {
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kDouble}) {
    for (const char* weight : {"self.w.to(x.device, x.dtype)", "self.w.to(device=x.device, dtype=x.dtype)",
                               "self.w.to(x.dtype).to(x.device)", "self.w.to(x.device).to(x.dtype)",
                               "self.w.to(x.device).type_as(x)", "self.w.to(x.device, x.dtype, copy=True)"}) {
      auto [made, context] =
          before_pass(cast_weight(weight, dtype), torch::randn({4, 8}), "x86", "know_dtypes");
      ASSERT_FALSE(known_weight(made).defined()) << weight;
      EXPECT_TRUE(passes::know_dtypes(made, context)) << weight;
      EXPECT_EQ(testing::count(made, "prim::dtype") + testing::count(made, "prim::device"), 0U) << weight;
      ASSERT_TRUE(known_weight(made).defined()) << weight << dtype;
      EXPECT_EQ(known_weight(made).scalar_type(), at::kFloat) << weight << dtype;
      EXPECT_FALSE(passes::know_dtypes(made, context)) << weight;
    }
  }
}

TEST(KnowDtypes, ThatAModelAsksForTheDeviceOfAParameterKeepsItFromNoCast) {
  torch::manual_seed(4);
  Module model = testing::user_module("Asked");
  model.register_parameter("w", torch::randn({8, 8}).to(at::kHalf), /*is_buffer=*/false);
  model.define(
      "def forward(self, x):\n"
      "  x = x.to(self.w.device)\n"
      "  return torch.relu(torch.linear(x, self.w.to(self.w.device, x.dtype)))\n");
  auto [made, context] = before_pass(model, torch::randn({4, 8}), "x86", "know_dtypes");
  EXPECT_TRUE(passes::know_dtypes(made, context));
  EXPECT_EQ(testing::count(made, "prim::device"), 0U);
  EXPECT_TRUE(known_weight(made).defined());
}

TEST(KnowDtypes, WhatIsNoConstantGoesToTheDeviceThatTheModelNames) {
  torch::manual_seed(4);
  Module model = testing::user_module("Moved");
  model.register_module("layer", testing::linear(8, 8));
  model.define("def forward(self, x):\n  return torch.relu(self.layer.forward(x).to(x.device))\n");
  auto [made, context] = before_pass(model, torch::randn({4, 8}), "x86", "know_dtypes");
  ASSERT_EQ(testing::count(made, "prim::device"), 1U);
  EXPECT_FALSE(passes::know_dtypes(made, context));
  EXPECT_EQ(testing::count(made, "prim::device"), 1U);
}

TEST(KnowDtypes, ValuesThatNothingObservedMayBeOfAnyDtype) {
  Module model = cast_weight("self.w.float()");
  model.define("def sized(self, x):\n  return torch.zeros([2], dtype=x.dtype)\n");
  auto [made, context] = before_pass(model, torch::randn({4, 8}), "x86", "know_dtypes");
  EXPECT_FALSE(passes::know_dtypes(made, context));
}

}  // namespace ranges_test
}  // namespace tsq
