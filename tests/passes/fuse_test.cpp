#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/backends.h>

#include "ir/analysis.h"
#include "passes/match/passes.h"
#include "support/pass_model.h"
#include "support/small_models.h"
#include "torchscript/emit.h"

namespace tsq {
namespace fuse_test {

using torch::jit::Module;

std::vector<std::string_view> calls_in_graph(const ir::Model& model) {
  std::vector<std::string_view> types;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_module_call(node)) types.push_back(ir::call_of(model, node).type.name);
  }
  return types;
}

ir::Model fused(const Module& model, Recipe recipe = Recipe::Best) {
  ir::Model made = testing::normalised(model);
  passes::fuse(made, {.table = backend_config("x86"), .options = {.recipe = recipe}});
  return made;
}

TEST(Fuse, ConvBnReluBecomesOneModuleThatComputesTheSame) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(0);
  Module model = testing::conv_bn_relu();
  const ir::Model made = fused(model);
  EXPECT_EQ(calls_in_graph(made), std::vector<std::string_view>{"torch.ao.nn.intrinsic.ConvReLU2d"});
  const at::Tensor x = torch::randn({1, 3, 8, 8});
  EXPECT_TRUE(at::allclose(torchscript::emit(made).forward({x}).toTensor(), model.forward({x}).toTensor(),
                           1e-4, 1e-4));
}

/// A convolution that is called in front of two batch norms.
Module shared_by_two_batch_norms() {
  Module model = testing::user_module("Shared");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.register_module("a", testing::batch_norm2d(3));
  model.register_module("b", testing::batch_norm2d(3));
  model.define(
      "def forward(self, x):\n"
      "  return self.b.forward(self.conv.forward(self.a.forward(self.conv.forward(x))))\n");
  return model;
}

TEST(Fuse, AWeightThatTwoBatchNormsScaleStaysOne) {
  const Module model = shared_by_two_batch_norms();
  EXPECT_EQ(calls_in_graph(fused(model)).size(), 4U);
  EXPECT_EQ(calls_in_graph(fused(model, Recipe::Fx)).size(), 2U) << "FX has two weights";
}

TEST(Fuse, ALayerThatOneBatchNormFollowsTwiceIsFolded) {
  Module model = testing::user_module("Same");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.register_module("a", testing::batch_norm2d(3));
  model.define(
      "def forward(self, x):\n"
      "  return self.a.forward(self.conv.forward(self.a.forward(self.conv.forward(x))))\n");
  EXPECT_EQ(calls_in_graph(fused(model)).size(), 2U);
}

TEST(Fuse, KeepsAConvWhoseOutputIsReadTwice) {  // C-08
  EXPECT_EQ(calls_in_graph(fused(testing::conv_relu_with_skip())),
            (std::vector<std::string_view>{"torch.nn.Conv2d", "torch.nn.ReLU"}));
}

TEST(Fuse, ASharedReluIsFusedAtEveryUse) {  // C-13
  Module model = testing::user_module("SharedReLU");
  model.register_module("a", testing::conv2d(3, 3, 3));
  model.register_module("b", testing::conv2d(3, 3, 3));
  model.register_module("relu", testing::relu());
  model.define(
      "def forward(self, x):\n  return "
      "self.relu.forward(self.b.forward(self.relu.forward(self.a.forward(x))))\n");
  EXPECT_EQ(calls_in_graph(fused(model)),
            (std::vector<std::string_view>{"torch.ao.nn.intrinsic.ConvReLU2d",
                                           "torch.ao.nn.intrinsic.ConvReLU2d"}));
}

TEST(Fuse, FoldsABatchNormIntoAConvWithoutBias) {  // C-21
  const at::NoGradGuard no_grad;
  Module model = testing::user_module("NoBias");
  model.register_module("conv", testing::conv2d(3, 4, 1, /*bias=*/false));
  model.register_module("bn", testing::batch_norm2d(4));
  model.define("def forward(self, x):\n  return self.bn.forward(self.conv.forward(x))\n");
  const ir::Model made = fused(model);
  ASSERT_EQ(calls_in_graph(made), std::vector<std::string_view>{"torch.nn.Conv2d"});
  const at::Tensor x = torch::randn({1, 3, 4, 4});
  EXPECT_TRUE(at::allclose(torchscript::emit(made).forward({x}).toTensor(), model.forward({x}).toTensor(),
                           1e-4, 1e-4));
}

/// Transposed convolution → batch norm → ReLU, `more` after it.
Module decoder_block(int64_t groups = 1, const std::string& more = "") {
  Module model = testing::user_module("Decoder");
  Module conv = testing::conv_transpose2d(6, 4 / groups, 3);
  conv.setattr("groups", groups);
  conv.setattr("bias", torch::randn({4}));
  model.register_module("conv", conv);
  model.register_module("bn", testing::batch_norm2d(4));
  model.register_module("relu", testing::relu());
  model.define(
      "def forward(self, x):\n  c = self.conv.forward(x)\n  y = "
      "self.relu.forward(self.bn.forward(c))\n  return y" +
      more + "\n");
  return model;
}

TEST(Fuse, ATransposedConvolutionTakesItsBatchNormBeforeTheReLUDoes) {
  const at::NoGradGuard no_grad;
  for (const int64_t groups : {1, 2, 4}) {
    torch::manual_seed(7);
    Module model = decoder_block(groups);
    const at::Tensor x = torch::randn({2, 6, 5, 5}).slice(1, 0, groups == 4 ? 4 : 6);
    if (groups == 4) {
      Module conv = model.attr("conv").toModule();
      conv.setattr("weight", torch::randn({4, 1, 3, 3}));
    }
    const ir::Model made = fused(model);
    EXPECT_EQ(calls_in_graph(made),
              (std::vector<std::string_view>{"torch.nn.ConvTranspose2d", "torch.nn.ReLU"}));
    EXPECT_TRUE(at::allclose(torchscript::emit(made).forward({x}).toTensor(), model.forward({x}).toTensor(),
                             1e-4, 1e-4))
        << groups;
  }
  EXPECT_EQ(calls_in_graph(fused(decoder_block(), Recipe::Fx)),
            (std::vector<std::string_view>{"torch.nn.ConvTranspose2d", "torch.ao.nn.intrinsic.BNReLU2d"}))
      << "FX pairs from the end";
}

TEST(Fuse, ABatchNormWhoseLayerOthersReadStaysWithItsReLU) {
  EXPECT_EQ(calls_in_graph(fused(decoder_block(1, " + c"))),
            (std::vector<std::string_view>{"torch.nn.ConvTranspose2d", "torch.ao.nn.intrinsic.BNReLU2d"}));
}

TEST(Fuse, ALinearLayerThatHasTakenItsBatchNormGoesWithTheReLU) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(8);
  Module model = testing::user_module("Rows");
  model.register_module("linear", testing::linear(5, 4));
  model.register_module("relu", testing::relu());
  for (const char* name : {"w", "b", "mean", "var"}) model.register_buffer(name, torch::rand({4}) + 0.5);
  model.define(
      "def forward(self, x):\n  y = self.linear.forward(x)\n  return self.relu.forward(torch.batch_norm(y, "
      "self.w, self.b, self.mean, self.var, False, 0.1, 1e-5, False))\n");
  ir::Model made = testing::lifted(model);
  passes::fuse(made, {.table = backend_config("x86"), .options = {.recipe = Recipe::Best}});
  ASSERT_EQ(calls_in_graph(made), std::vector<std::string_view>{"torch.ao.nn.intrinsic.LinearReLU"});
  for (const ir::Node* node : ir::nodes_in_order(*made.graph)) {
    if (!ir::is_module_call(node)) continue;
    EXPECT_EQ(ir::call_of(made, node).parts.size(), 3U);
  }
  const at::Tensor x = torch::randn({3, 5});
  EXPECT_TRUE(at::allclose(torchscript::emit(made).forward({x}).toTensor(), model.forward({x}).toTensor(),
                           1e-4, 1e-4));
}

TEST(Fuse, AResidualChainReadsTheFusedBlockBefore) {  // onednn: conv + add, twice in a row
  const at::NoGradGuard no_grad;
  Module model = testing::user_module("Chain");
  for (const char* name : {"a", "b", "c"}) model.register_module(name, testing::conv2d(3, 3, 3));
  model.define(
      "def forward(self, x):\n  x = self.a.forward(x)\n  x = self.b.forward(x) + x\n  return "
      "self.c.forward(x) + x\n");
  ir::Model made = testing::normalised(model);
  passes::fuse(made, {.table = backend_config("onednn")});
  EXPECT_EQ(calls_in_graph(made),
            (std::vector<std::string_view>{"torch.nn.Conv2d", "torch.ao.nn.intrinsic.ConvAdd2d",
                                           "torch.ao.nn.intrinsic.ConvAdd2d"}));
  const at::Tensor x = torch::randn({1, 3, 8, 8});
  EXPECT_TRUE(at::allclose(torchscript::emit(made).forward({x}).toTensor(), model.forward({x}).toTensor(),
                           1e-3, 1e-3));
}

ir::Model fused_for_onednn(const std::string& forward, Recipe recipe = Recipe::Best) {
  Module model = testing::user_module("Addition");
  for (const char* name : {"a", "b"}) model.register_module(name, testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n" + forward);
  ir::Model made = testing::normalised(model);
  passes::fuse(made, {.table = backend_config("onednn"), .options = {.recipe = recipe}});
  return made;
}

const std::vector<std::string_view> kConv{"torch.nn.Conv2d"};
const std::vector<std::string_view> kConvAdd{"torch.ao.nn.intrinsic.ConvAdd2d"};

TEST(Fuse, AConvolutionIsNotFusedWithAnAdditionToItself) {
  EXPECT_EQ(calls_in_graph(fused_for_onednn("  y = self.a.forward(x)\n  return y + y\n")), kConv);
  EXPECT_EQ(calls_in_graph(fused_for_onednn("  return self.a.forward(x) + x\n")), kConvAdd);
}

TEST(Fuse, AConvolutionIsNotFusedWithAnAdditionWithAlpha) {  // FX drops the alpha
  EXPECT_EQ(calls_in_graph(fused_for_onednn("  return torch.add(self.a.forward(x), x, alpha=2)\n")), kConv);
  EXPECT_EQ(calls_in_graph(fused_for_onednn("  return torch.add(self.a.forward(x), x)\n")), kConvAdd);
}

TEST(Fuse, AConvolutionIsNotFusedWithANumber) {
  EXPECT_EQ(calls_in_graph(fused_for_onednn("  return self.a.forward(x) + 1.5\n")), kConv);
}

TEST(Fuse, AConvolutionIsNotFusedWithAnAddendThatItIsBroadcastTo) {
  EXPECT_EQ(calls_in_graph(fused_for_onednn("  return self.a.forward(torch.mean(x, [2, 3], True)) + x\n")),
            kConv);
}

bool addend_may_broadcast(const ir::Model& model) {
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_module_call(node) && node->inputs().size() == 2)
      return ir::call_of(model, node).addend_may_broadcast;
  }
  ADD_FAILURE() << "nothing was fused";
  return false;
}

TEST(Fuse, KnowsWhereAnAddendHasTheShapeOfTheConvolution) {
  EXPECT_FALSE(addend_may_broadcast(fused_for_onednn("  return self.a.forward(x) + x\n")));
  EXPECT_FALSE(addend_may_broadcast(fused_for_onednn(
      "  return self.a.forward(x) + torch.max_pool2d(x, [3, 3], [1, 1], [1, 1], [1, 1], False)\n")));
  EXPECT_TRUE(
      addend_may_broadcast(fused_for_onednn("  return self.a.forward(x) + torch.mean(x, [2, 3], True)\n")));
}

/// The first sample of a batch, plus all of them: the sum is larger than the convolution's result.
constexpr const char* kFirstPlusAll = "  return self.a.forward(x[:1]) + torch.hardswish(self.b.forward(x))\n";

TEST(Fuse, AConvolutionIsNotFusedWithASumThatMayBeLargerThanItsResult) {
  const std::vector<std::string_view> apart{"torch.nn.Conv2d", "torch.nn.Conv2d"};
  EXPECT_EQ(calls_in_graph(fused_for_onednn(kFirstPlusAll)), apart);
  EXPECT_EQ(calls_in_graph(fused_for_onednn("  return self.a.forward(x) + x.flatten(1).reshape(x.shape)\n")),
            kConv);
  EXPECT_NE(calls_in_graph(fused_for_onednn(kFirstPlusAll, Recipe::Fx)), apart) << "FX asks for no shapes";
}

TEST(Fuse, ResidualBlocksAreFusedWhatTheirSizesAre) {
  for (const char* sum :
       {"self.a.forward(x) + torch.cat([self.b.forward(x), torch.relu(x)], 1)[:, :3]",
        "self.a.forward(torch.max_pool2d(x, [2, 2])) + torch.max_pool2d(self.b.forward(x), [2, 2])",
        "torch.sigmoid(x) * x + self.a.forward(x)"}) {
    EXPECT_EQ(calls_in_graph(fused_for_onednn(fmt::format("  return {}\n", sum))).back(), kConvAdd.front())
        << sum;
  }
}

}  // namespace fuse_test
}  // namespace tsq
