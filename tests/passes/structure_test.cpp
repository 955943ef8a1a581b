// What recipe `best` changes in a graph before anything is fused or matched.

#include <gtest/gtest.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include "ir/analysis.h"
#include "passes/rewrite/passes.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace structure_test {

using torch::jit::Module;
using torch::jit::testing::FileCheck;

const PrepareOptions kBest{.recipe = Recipe::Best};

std::vector<Sample> samples(at::IntArrayRef shape) {
  torch::manual_seed(1);
  std::vector<Sample> result;
  for (int i = 0; i < 4; ++i) result.push_back({torch::randn(shape)});
  return result;
}

Module quantized(const Module& model, const std::vector<Sample>& data) {
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend_config("x86"), kBest);
  calibrate(prepared, data);
  return convert(prepared, backend_config("x86"));
}

std::string graph_of(const Module& module) { return module.get_method("forward").graph()->toString(); }

double largest_difference(Module a, Module b, const Sample& sample) {
  const at::NoGradGuard no_grad;
  return (a.forward(sample).toTensor() - b.forward(sample).toTensor()).abs().max().item<double>();
}

Module leaf(const std::string& name, const std::string& forward) {
  Module module("__torch__.torch.nn.modules." + name, std::make_shared<torch::jit::CompilationUnit>(),
                /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), false);
  module.define("def forward(self, x):\n  return " + forward + "\n");
  return module;
}

Module unpadded_convolution() {
  Module convolution = testing::conv2d(4, 8, 3);
  convolution.setattr("padding", c10::List<int64_t>({0, 0}));
  return convolution;
}

Module batch_norm_before(const Module& convolution) {
  Module model = testing::user_module("BatchNormFirst");
  model.register_module("norm", testing::batch_norm2d(4));
  model.register_module("conv", convolution);
  model.define("def forward(self, x):\n  return self.conv.forward(self.norm.forward(x))\n");
  return model;
}

TEST(FoldBatchNorms, ABatchNormBeforeAConvolutionWithoutPaddingBecomesPartOfIt) {
  torch::manual_seed(3);
  const Module model = batch_norm_before(unpadded_convolution());
  const auto data = samples({2, 4, 6, 6});
  const Module best = quantized(model, data);
  FileCheck().check_not("batch_norm")->run(graph_of(best));
  const double largest_output = Module(model).forward(data.front()).toTensor().abs().max().item<double>();
  EXPECT_LT(largest_difference(model, best, data.front()), 0.03 * largest_output);
}

TEST(FoldBatchNorms, TheFoldedConvolutionComputesTheSameInFloat) {
  torch::manual_seed(4);
  Module model = batch_norm_before(unpadded_convolution());
  ir::Model made = testing::normalised(model);
  passes::fold_batch_norms(made, {});
  const Sample sample{torch::randn({2, 4, 6, 6})};
  ASSERT_EQ(std::ranges::count_if(ir::nodes_in_order(*made.graph), ir::is_module_call), 1);
  for (const ir::Node* node : ir::nodes_in_order(*made.graph)) {
    if (!ir::is_module_call(node)) continue;
    const ir::Weighted& folded = *ir::call_of(made, node).weighted;
    const at::Tensor expected = model.forward(sample).toTensor();
    const at::Tensor got = at::conv2d(sample.front().toTensor(), folded.weight, folded.bias);
    EXPECT_TRUE(at::allclose(got, expected, 1e-4, 1e-5));
  }
}

TEST(FoldBatchNorms, PaddingComesAfterTheBatchNormWhichThenStays) {
  torch::manual_seed(3);
  ir::Model model = testing::normalised(batch_norm_before(testing::conv2d(4, 8, 3)));
  passes::fold_batch_norms(model, {});
  EXPECT_EQ(std::ranges::count_if(ir::nodes_in_order(*model.graph), ir::is_module_call), 2);
}

/// `a`, an nn.Identity, an nn.Dropout and `b`, one after the other.
Module with_identities() {
  torch::manual_seed(5);
  Module model = testing::user_module("WithIdentities");
  model.register_module("a", testing::linear(6, 6));
  model.register_module("same", leaf("linear.Identity", "x"));
  model.register_module("drop", leaf("dropout.Dropout", "torch.dropout(x, 0.5, self.training)"));
  model.register_module("b", testing::linear(6, 6));
  model.define(
      "def forward(self, x):\n"
      "  return self.b.forward(self.drop.forward(self.same.forward(self.a.forward(x))))\n");
  return model;
}

TEST(DropIdentities, IdentitiesAndDropoutsInEvaluationAreNeitherCalledNorObserved) {
  const auto prepared_graph = [](const PrepareOptions& options) {
    return graph_of(
        prepare(with_identities(), default_qconfig_mapping("x86"), backend_config("x86"), options).module());
  };
  for (const char* layer : {"\"same\"", "\"drop\""}) {
    EXPECT_EQ(prepared_graph(kBest).find(layer), std::string::npos) << layer;
    EXPECT_NE(prepared_graph({.recipe = Recipe::Fx}).find(layer), std::string::npos)
        << layer << " is observed in recipe fx";
  }
}

TEST(DropIdentities, AModelWithIdentitiesIsQuantizedLikeOneWithout) {
  const Module model = with_identities();
  Module plain = testing::user_module("Plain");
  plain.register_module("a", model.attr("a").toModule());
  plain.register_module("b", model.attr("b").toModule());
  plain.define("def forward(self, x):\n  return self.b.forward(self.a.forward(x))\n");
  const auto data = samples({3, 6});
  EXPECT_EQ(largest_difference(quantized(model, data), quantized(plain, data), data.front()), 0);
}

TEST(AnySpelling, AMethodIsQuantizedLikeItsFunction) {
  torch::manual_seed(6);
  const auto model_with = [&](const std::string& flatten) {
    torch::manual_seed(6);
    Module model = testing::user_module("Flattening");
    model.register_module("a", testing::conv2d(3, 4, 3));
    model.register_module("b", testing::linear(4 * 6 * 6, 5));
    model.define("def forward(self, x):\n  return self.b.forward(" + flatten + ")\n");
    return model;
  };
  const auto data = samples({2, 3, 6, 6});
  const Module of_method = quantized(model_with("self.a.forward(x).flatten(1)"), data);
  const Module of_function = quantized(model_with("torch.flatten(self.a.forward(x), 1)"), data);
  EXPECT_EQ(largest_difference(of_method, of_function, data.front()), 0);
}

}  // namespace structure_test
}  // namespace tsq
