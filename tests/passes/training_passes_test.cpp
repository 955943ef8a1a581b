// Passes that only models that train go through, one by one.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <limits>

#include "passes/capture/passes.h"
#include "passes/match/passes.h"
#include "passes/rewrite/passes.h"
#include "passes/train/passes.h"
#include "support/before_pass.h"
#include "support/model_before.h"
#include "support/small_models.h"

namespace tsq {
namespace training_passes_test {

using testing::call_of_layer;
using testing::model_before;
using torch::jit::Module;

/// inner (conv → bn → relu) → after
Module model() {
  torch::manual_seed(1);
  Module module = testing::user_module("Trained");
  module.register_module("inner", testing::conv_bn_relu());
  module.register_module("after", testing::conv2d(4, 2, 1));
  module.define("def forward(self, x):\n  return self.after.forward(self.inner.forward(x))\n");
  for (const at::Tensor& parameter : module.parameters()) parameter.set_requires_grad(true);
  return module;
}

/// Leaves the convolution "after" float.
QConfigMapping only_inner() {
  return default_qat_qconfig_mapping("x86").set_module_name("after", std::nullopt);
}

TEST(CaptureForTraining, AConditionOnTrainingStays) {
  Module module = testing::user_module("Conditional");
  module.define(
      "def forward(self, x):\n  if self.training:\n    x = torch.sin(x)\n  else:\n    x = torch.cos(x)\n  "
      "return x\n");
  ir::Model captured;
  ASSERT_TRUE(passes::capture_for_training(captured, {.source = module, .trains = true}));
  EXPECT_EQ(testing::count(captured, "prim::If"), 1U);
  EXPECT_EQ(testing::count(captured, "aten::sin"), 1U);
}

TEST(CaptureForTraining, AModuleIsThatOfTheSource) {
  const Module source = model();
  ir::Model captured;
  ASSERT_TRUE(passes::capture_for_training(captured, {.source = source, .trains = true}));
  const Module norm = source.attr("inner").toModule().attr("bn").toModule();
  EXPECT_EQ(call_of_layer(captured, "inner.bn").module->_ivalue(), norm._ivalue());
}

/// relu(y * 2 if training else y), or of another operator that reads it
Module scaled_in_training(const std::string& reader) {
  Module module = testing::user_module("Scaled");
  module.register_module("conv", testing::conv2d(3, 3, 1));
  module.define(
      "def forward(self, x):\n  y = self.conv.forward(x)\n  if self.training:\n    y = y * 2.0\n  return " +
      reader + "(y)\n");
  for (const at::Tensor& parameter : module.parameters()) parameter.set_requires_grad(true);
  return module;
}

TEST(JoinModeBranches, AnActivationMovesIntoTheBranchesWhereTheTableJoinsIt) {
  const passes::PassContext context = testing::training_context(scaled_in_training("torch.relu"));
  ir::Model joined = model_before(context, "join_mode_branches");
  EXPECT_TRUE(passes::join_mode_branches(joined, context));
  EXPECT_EQ(testing::count(joined, "aten::relu"), 2U);
  EXPECT_EQ(testing::node_of_kind(joined, "aten::relu")->owningBlock()->owningNode()->kind(), c10::prim::If);
}

TEST(JoinModeBranches, AnOperatorOfNoPatternOfSeveralStays) {
  const passes::PassContext context = testing::training_context(scaled_in_training("torch.sin"));
  ir::Model joined = model_before(context, "join_mode_branches");
  EXPECT_FALSE(passes::join_mode_branches(joined, context));
}

TEST(SwapAroundForTraining, LayersThatTheMappingAroundTrainsFakeQuantize) {
  passes::PassContext context = testing::training_context(model());
  context.mapping_around = only_inner();
  ir::Model captured = model_before(context, "swap_around_for_training");
  EXPECT_TRUE(passes::swap_around_for_training(captured, context));
  EXPECT_EQ(call_of_layer(captured, "inner.conv").type, symbol("torch.ao.nn.qat.Conv2d"));
  EXPECT_EQ(call_of_layer(captured, "after").type, symbol("torch.nn.Conv2d"));
  EXPECT_TRUE(captured.trained_qconfigs.contains("inner.conv"));
}

TEST(SwapAroundForTraining, WithoutAModelAroundNothingChanges) {
  const passes::PassContext context = testing::training_context(model());
  ir::Model captured = model_before(context, "swap_around_for_training");
  EXPECT_FALSE(passes::swap_around_for_training(captured, context));
  EXPECT_EQ(call_of_layer(captured, "inner.conv").type, symbol("torch.nn.Conv2d"));
}

TEST(FuseForTraining, ABatchNormStaysAnOperatorOfTheFusedModule) {
  const passes::PassContext context = testing::training_context(model());
  ir::Model fused = model_before(context, "fuse_for_training");
  EXPECT_TRUE(passes::fuse_for_training(fused, context));
  const ir::ModuleCall& call = call_of_layer(fused, "inner.conv");
  EXPECT_EQ(call.type, symbol("torch.ao.nn.intrinsic.ConvBnReLU2d"));
  EXPECT_EQ(call.members.size(), 3U);
}

TEST(FuseForTraining, AConvolutionThatOthersReadStaysByItself) {
  Module module = testing::conv_relu_with_skip();
  const passes::PassContext context = testing::training_context(module);
  ir::Model fused = model_before(context, "fuse_for_training");
  EXPECT_FALSE(passes::fuse_for_training(fused, context));
  EXPECT_EQ(call_of_layer(fused, "conv").type, symbol("torch.nn.Conv2d"));
}

TEST(SwapForTraining, LayersWithAQConfigFakeQuantize) {
  passes::PassContext context = testing::training_context(model());
  context.mapping = only_inner();
  ir::Model swapped = model_before(context, "swap_for_training");
  EXPECT_TRUE(passes::swap_for_training(swapped, context));
  EXPECT_EQ(call_of_layer(swapped, "inner.conv").type, symbol("torch.ao.nn.intrinsic.qat.ConvBnReLU2d"));
  EXPECT_EQ(call_of_layer(swapped, "after").type, symbol("torch.nn.Conv2d"));
  EXPECT_TRUE(swapped.trained_qconfigs.contains("inner.conv"));
  EXPECT_FALSE(swapped.trained_qconfigs.contains("after"));
}

TEST(SwapForTraining, WithoutAQConfigNothingChanges) {
  passes::PassContext context = testing::training_context(model());
  ir::Model swapped = model_before(context, "swap_for_training");
  context.mapping = {};
  EXPECT_FALSE(passes::swap_for_training(swapped, context));
  EXPECT_TRUE(swapped.trained_qconfigs.empty());
}

passes::PassContext best_training_context(const Module& module) {
  passes::PassContext context = testing::training_context(module);
  context.options.recipe = Recipe::Best;
  context.mapping = best_qat_qconfig_mapping("x86");
  return context;
}

// QT-104.
TEST(MarkForTraining, EveryLayerWhoseWeightConvertRoundsIsMarkedAndKeepsItsClass) {
  Module module = testing::user_module("Marked");
  module.register_module("conv", testing::conv2d(3, 4, 1));
  module.register_module("prelu", testing::prelu(4));
  module.register_module("up", testing::conv_transpose2d(4, 2, 3));
  module.define(
      "def forward(self, x):\n  return self.up.forward(self.prelu.forward(self.conv.forward(x)))\n");
  const passes::PassContext context = best_training_context(module);
  ir::Model marked = model_before(context, "mark_for_training");
  EXPECT_TRUE(passes::mark_for_training(marked, context));
  for (const std::string layer : {"conv", "prelu", "up"})
    EXPECT_TRUE(marked.trained_qconfigs.contains(layer)) << layer;
  EXPECT_EQ(call_of_layer(marked, "up").type, symbol("torch.nn.ConvTranspose2d"));
}

TEST(MarkForTraining, AMappingWithoutFakeQuantizesMarksNothing) {
  passes::PassContext context = best_training_context(model());
  context.mapping = best_qconfig_mapping("x86");
  ir::Model marked = model_before(context, "mark_for_training");
  EXPECT_FALSE(passes::mark_for_training(marked, context));
}

TEST(FinishTraining, ATrainedLayerIsFloatAndKnowsTheRangeOfItsWeight) {
  const Prepared prepared = prepare_qat(model(), only_inner(), backend_config("x86"));
  testing::CalibratedModel trained = testing::before_pass(prepared, "finish_training");
  EXPECT_TRUE(passes::finish_training(trained.model, trained.context));
  const ir::ModuleCall& call = call_of_layer(trained.model, "inner.conv");
  EXPECT_EQ(call.type, symbol("torch.ao.nn.intrinsic.ConvReLU2d"));
  EXPECT_EQ(call.members.size(), 2U) << "the batch norm is folded";
  EXPECT_TRUE(ir::weighted_of(call)->weight_qparams.has_value());
}

TEST(CheckTrained, ARangeThatIsNotFiniteIsRefusedAndNothingChanges) {
  const Prepared prepared = prepare_qat(model(), only_inner(), backend_config("x86"));
  testing::CalibratedModel trained = testing::before_pass(prepared, "check_trained");
  EXPECT_FALSE(passes::check_trained(trained.model, trained.context));
  trained.model.weight_fake_quants.at("inner.conv").attr("scale").toTensor()[0] =
      std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(passes::check_trained(trained.model, trained.context), Error);
}

TEST(FinishTraining, ALayerWithoutAQConfigKeepsItsWeight) {
  const Prepared prepared = prepare_qat(model(), only_inner(), backend_config("x86"));
  testing::CalibratedModel trained = testing::before_pass(prepared, "finish_training");
  const at::Tensor before = testing::layer(trained.model, "after").weight;
  passes::finish_training(trained.model, trained.context);
  EXPECT_EQ(call_of_layer(trained.model, "after").type, symbol("torch.nn.Conv2d"));
  EXPECT_TRUE(at::equal(testing::layer(trained.model, "after").weight, before));
  EXPECT_FALSE(testing::layer(trained.model, "after").weight_qparams.has_value());
}

}  // namespace training_passes_test
}  // namespace tsq
