// Passes of the room observe one by one, on models as prepare has them there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/observe/passes.h"
#include "support/before_pass.h"
#include "support/graph_model.h"
#include "support/model_before.h"
#include "support/small_models.h"

namespace tsq {
namespace observe_passes_test {

using testing::call_node;
using testing::input_observer;
using testing::model_before;
using testing::node_of_kind;
using ::testing::StartsWith;
using torch::jit::Module;

constexpr const char* kObserver = "prim::tsq_observer";

/// `forward` may use a LayerNorm, norm, and the linear layers first, second and third (8 to 8).
Module linear_layers(const std::string& forward) {
  torch::manual_seed(1);
  Module model = testing::user_module("Linears");
  model.register_module("norm", testing::layer_norm(8));
  for (const char* name : {"first", "second", "third"}) model.register_module(name, testing::linear(8, 8));
  model.define("def forward(self, x):\n" + forward);
  model.eval();
  return model;
}

/// `forward` may use the convolutions first (of so many channels) and second.
Module convolutions(const std::string& forward, int64_t channels = 3) {
  torch::manual_seed(1);
  Module model = testing::user_module("Convolutions");
  model.register_module("first", testing::conv2d(channels, 4, 3));
  model.register_module("second", testing::conv2d(4, 4, 3));
  model.define("def forward(self, x):\n" + forward);
  model.eval();
  return model;
}

constexpr const char* kChain = "  return self.second.forward(self.first.forward(x))\n";
constexpr const char* kHardswish = "  return self.second.forward(torch.hardswish(self.first.forward(x)))\n";

/// The class of an observer.
const std::string& class_of(const ir::Model& model, const ir::Node* observer) {
  return ir::observer_of(model, observer).spec.observer;
}

std::size_t observers_of(const ir::Model& model, const std::string& name) {
  const auto nodes = ir::nodes_in_order(*model.graph);
  return static_cast<std::size_t>(std::ranges::count_if(
      nodes, [&](const ir::Node* node) { return ir::is_observer(node) && class_of(model, node) == name; }));
}

passes::PassContext equalizing(const std::string& forward) {
  passes::PassContext context = testing::recipe_context(linear_layers(forward), Recipe::Fx);
  context.equalization = EqualizationMapping().set_global(default_equalization_qconfig());
  return context;
}

TEST(Equalize, AChannelObserverStandsInFrontOfEachLayer) {
  const passes::PassContext context = equalizing(kChain);
  ir::Model model = model_before(context, "equalize");
  EXPECT_TRUE(passes::equalize(model, context));
  for (const char* layer : {"first", "second"}) {
    const ir::Node* observer = input_observer(call_node(model, layer));
    EXPECT_EQ(class_of(model, observer), "_InputEqualizationObserver") << layer;
    EXPECT_NE(input_observer(observer), nullptr) << "that of the range stands in front of it";
    EXPECT_EQ(testing::reported_equalization(model, layer), "equalized");
  }
}

TEST(Equalize, LayersThatReadOneTensorAreNotEqualized) {
  const passes::PassContext context = equalizing("  return self.first.forward(x) + self.second.forward(x)\n");
  ir::Model model = model_before(context, "equalize");
  EXPECT_FALSE(passes::equalize(model, context));
  EXPECT_EQ(observers_of(model, "_InputEqualizationObserver"), 0U);
  EXPECT_THAT(testing::reported_equalization(model, "first"), StartsWith("not equalized: it is part of a"));
}

TEST(Smooth, OneChannelObserverStandsInFrontOfTheLayersAfterALayerNorm) {
  const passes::PassContext context = testing::recipe_context(
      linear_layers("  y = self.norm.forward(x)\n  return self.first.forward(y) + self.second.forward(y)\n"));
  ir::Model model = model_before(context, "smooth");
  EXPECT_TRUE(passes::smooth(model, context));
  const ir::Node* observer = input_observer(call_node(model, "first"));
  EXPECT_EQ(class_of(model, observer), "_InputEqualizationObserver");
  EXPECT_EQ(input_observer(call_node(model, "second")), observer);
  EXPECT_EQ(testing::reported_equalization(model, "first"), "smoothed");
}

TEST(Smooth, ALayerThatReadsAnotherLayerIsNotSmoothed) {
  const passes::PassContext context = testing::recipe_context(linear_layers(kChain));
  ir::Model model = model_before(context, "smooth");
  EXPECT_FALSE(passes::smooth(model, context));
  EXPECT_EQ(observers_of(model, "_InputEqualizationObserver"), 0U);
  EXPECT_EQ(testing::reported_equalization(model, "second"),
            "not smoothed: its input is not the output of a LayerNorm");
}

TEST(JoinBranches, WhatBothReturnHasOneRange) {
  const passes::PassContext context = testing::recipe_context(linear_layers(
      "  if x.size(0) > 1:\n    y = self.first.forward(x)\n  else:\n    y = self.second.forward(x)\n"
      "  return self.third.forward(y)\n"));
  ir::Model model = model_before(context, "join_branches");
  EXPECT_NE(input_observer(call_node(model, "third")), nullptr);
  EXPECT_TRUE(passes::join_branches(model, context));
  EXPECT_EQ(input_observer(call_node(model, "third")), nullptr);
  const auto index_after = [&](const char* layer) {
    return ir::observer_index(testing::output_observer(call_node(model, layer)));
  };
  EXPECT_EQ(index_after("first"), index_after("second"));
}

TEST(JoinBranches, WhatIsMadeInNeitherKeepsItsRange) {
  const passes::PassContext context = testing::recipe_context(
      linear_layers("  y = self.first.forward(x)\n  z = self.second.forward(x)\n"
                    "  if x.size(0) > 1:\n    y = z\n  return self.third.forward(y)\n"));
  ir::Model model = model_before(context, "join_branches");
  const std::size_t before = testing::count(model, kObserver);
  EXPECT_FALSE(passes::join_branches(model, context));
  EXPECT_EQ(testing::count(model, kObserver), before);
}

TEST(ObserveFixedInputs, WhatTanhTakesOfALoopHasARangeThatIsFound) {
  const passes::PassContext context =
      testing::recipe_context(linear_layers("  y = self.third.forward(x)\n"
                                            "  for i in range(x.size(0)):\n    y = self.first.forward(y)\n"
                                            "  return self.third.forward(y * torch.tanh(y))\n"));
  ir::Model model = model_before(context, "observe_fixed_inputs");
  const ir::Node* tanh = node_of_kind(model, "aten::tanh");
  ASSERT_NE(input_observer(tanh), nullptr);
  ASSERT_EQ(class_of(model, input_observer(tanh)), "FixedQParamsObserver");
  EXPECT_TRUE(passes::observe_fixed_inputs(model, context));
  ASSERT_NE(input_observer(tanh), nullptr);
  EXPECT_EQ(input_observer(tanh), input_observer(node_of_kind(model, "aten::mul")));
  EXPECT_NE(class_of(model, input_observer(tanh)), "FixedQParamsObserver");
  EXPECT_EQ(class_of(model, testing::output_observer(tanh)), "FixedQParamsObserver");
}

TEST(ObserveFixedInputs, WithoutAFixedRangeNothingChanges) {
  const passes::PassContext context = testing::recipe_context(linear_layers(kChain));
  ir::Model model = model_before(context, "observe_fixed_inputs");
  EXPECT_FALSE(passes::observe_fixed_inputs(model, context));
}

TEST(ObserveLayerInputs, AFloatTensorThatIsMadeOfSizesIsObserved) {
  const passes::PassContext context =
      testing::recipe_context(linear_layers("  return self.second.forward(torch.ones([x.size(0), 8]))\n"));
  ir::Model model = model_before(context, "observe_layer_inputs");
  EXPECT_EQ(input_observer(call_node(model, "second")), nullptr);
  EXPECT_TRUE(passes::observe_layer_inputs(model, context));
  EXPECT_NE(input_observer(call_node(model, "second")), nullptr);
}

TEST(ObserveLayerInputs, WhatIsObservedAlreadyIsObservedOnce) {
  const passes::PassContext context = testing::recipe_context(linear_layers(kChain));
  ir::Model model = model_before(context, "observe_layer_inputs");
  const std::size_t before = testing::count(model, kObserver);
  EXPECT_FALSE(passes::observe_layer_inputs(model, context));
  EXPECT_EQ(testing::count(model, kObserver), before);
}

TEST(ObserveChannels, EachLayerGetsAnObserverOfWhatItReads) {
  const passes::PassContext context = testing::recipe_context(convolutions(kChain));
  ir::Model model = model_before(context, "observe_channels");
  EXPECT_TRUE(passes::observe_channels(model, context));
  for (const char* layer : {"first", "second"}) {
    const ir::Node* observer = input_observer(call_node(model, layer));
    EXPECT_EQ(class_of(model, observer), "ChannelStatisticsObserver") << layer;
    EXPECT_EQ(ir::observer_of(model, observer).spec.ch_axis, -3) << "of an image's channels";
    EXPECT_NE(input_observer(observer), nullptr) << "that of the range stands in front of it";
  }
}

TEST(ObserveChannels, LayersWhoseInputsAreRoundedWhenTheyRunGetNone) {
  passes::PassContext context = testing::recipe_context(linear_layers(kChain));
  context.mapping = best_dynamic_qconfig_mapping();
  ir::Model model = model_before(context, "observe_channels");
  EXPECT_FALSE(passes::observe_channels(model, context));
  EXPECT_EQ(observers_of(model, "ChannelStatisticsObserver"), 0U);
}

TEST(ObserveInputProducts, EachConvolutionGetsAnObserverOfItsWindows) {
  const passes::PassContext context = testing::recipe_context(convolutions(kChain));
  ir::Model model = model_before(context, "observe_input_products");
  EXPECT_TRUE(passes::observe_input_products(model, context));
  EXPECT_EQ(testing::count(model, "aten::im2col"), 2U);
  EXPECT_EQ(observers_of(model, "InputProductsObserver"), 2U);
  const ir::Node* observer = testing::output_observer(node_of_kind(model, "aten::im2col"));
  ASSERT_NE(observer, nullptr);
  EXPECT_EQ(ir::observer_of(model, observer).spec.group_size, 3 * 3 * 3);
}

TEST(ObserveInputProducts, AMatrixOfTooManyColumnsGetsNone) {
  const passes::PassContext context =
      testing::recipe_context(convolutions("  return self.first.forward(x)\n", 256));
  ir::Model model = model_before(context, "observe_input_products");
  EXPECT_FALSE(passes::observe_input_products(model, context));
  EXPECT_EQ(testing::count(model, "aten::im2col"), 0U);
}

TEST(ClampObserved, WhatHardswishAloneReadsIsClampedForItsObserver) {
  const passes::PassContext context = testing::recipe_context(convolutions(kHardswish));
  ir::Model model = model_before(context, "clamp_observed");
  EXPECT_TRUE(passes::clamp_observed(model, context));
  const ir::Node* clamp = node_of_kind(model, "aten::clamp");
  EXPECT_EQ(clamp->input(0), call_node(model, "first")->output());
  EXPECT_EQ(testing::output_observer(clamp), input_observer(node_of_kind(model, "aten::hardswish")));
}

TEST(ClampObserved, WhatOthersReadTooIsNot) {
  for (const std::string result : {"self.second.forward(torch.hardswish(y) + y)",
                                   "self.second.forward(torch.hardswish(y)) + self.second.forward(y)"}) {
    const passes::PassContext context =
        testing::recipe_context(convolutions("  y = self.first.forward(x)\n  return " + result + "\n"));
    ir::Model model = model_before(context, "clamp_observed");
    EXPECT_FALSE(passes::clamp_observed(model, context)) << result;
    EXPECT_EQ(testing::count(model, "aten::clamp"), 0U);
  }
}

/// An observed value that one of two branches returns as `otherwise`, and that is read under a condition.
ir::Model read_in_a_branch(const std::string& otherwise) {
  ir::Model model = testing::model_of_graph("%x : Tensor, %c : bool", R"(
  %nothing : Tensor = prim::Uninitialized()
  %a : Tensor = prim::If(%c)
    block0():
      %r : Tensor = aten::relu(%x)
      -> (%r)
    block1():
      -> ()" + otherwise + R"()
  %y : Tensor = prim::If(%c)
    block0():
      %n : Tensor = aten::neg(%a)
      -> (%n)
    block1():
      -> (%x)
  return (%y)
)");
  model.observers.push_back({.name = "observer", .spec = {.observer = "MinMaxObserver"}});
  ir::Value* value = testing::node_named(model, "a")->output();
  ir::Node* observer = ir::insert_observer(model, value, 0);
  ir::replace_operand(testing::node_named(model, "n"), value, observer->output());
  return model;
}

TEST(ObserveWhereRead, AValueThatMayNotBeThereIsObservedWhereItIsRead) {
  ir::Model model = read_in_a_branch("%nothing");
  EXPECT_TRUE(passes::observe_where_read(model, {}));
  EXPECT_EQ(testing::count(model, kObserver), 1U);
  const ir::Node* reader = testing::node_named(model, "n");
  ASSERT_NE(input_observer(reader), nullptr);
  EXPECT_EQ(input_observer(reader)->owningBlock(), reader->owningBlock());
}

TEST(ObserveWhereRead, AValueThatIsAlwaysThereIsObservedWhereItIsMade) {
  ir::Model model = read_in_a_branch("%x");
  EXPECT_FALSE(passes::observe_where_read(model, {}));
  const ir::Node* observer = input_observer(testing::node_named(model, "n"));
  ASSERT_NE(observer, nullptr);
  EXPECT_EQ(observer->owningBlock(), model.graph->block());
}

}  // namespace observe_passes_test
}  // namespace tsq
