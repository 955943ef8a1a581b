// Passes of the room rewrite by themselves, on graphs that are written down: what each changes, and what it
// leaves alone.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <memory>

#include "ir/analysis.h"
#include "passes/rewrite/passes.h"
#include "support/calibrated_model.h"
#include "support/graph_model.h"

namespace tsq {
namespace rewrite_passes_test {

using testing::count;
using testing::node_named;

/// Without the constants that nothing reads.
ir::Model graph_model(const std::string& inputs, const std::string& text) {
  ir::Model model = testing::model_of_graph(inputs, text);
  ir::eliminate_dead_code(*model.graph);
  return model;
}

/// A linear layer (4 to 3 features) that returns h, and what is made of it.
ir::Model after_layer(const std::string& rest) {
  ir::Model model = graph_model("%x : Tensor", "  %h : Tensor = aten::neg(%x)\n" + rest);
  testing::put_call(model, "h", testing::linear_call(testing::rounded_linear(4, 3)));
  return model;
}

/// x, dropped out or not.
ir::Model dropout(const std::string& trains) {
  return graph_model("%x : Tensor", "  %d : Tensor = aten::dropout(%x, %scale, " + trains +
                                        ")\n  %y : Tensor = aten::relu(%d)\n  return (%y)\n");
}

TEST(DropIdentities, ADropoutInEvaluationIsGone) {
  ir::Model model = dropout("%no");
  EXPECT_TRUE(passes::drop_identities(model, {}));
  EXPECT_EQ(count(model, "aten::dropout"), 0U);
  EXPECT_EQ(node_named(model, "y")->input(0), model.graph->inputs()[1]);
}

TEST(DropIdentities, ADropoutInTrainingStays) {
  ir::Model model = dropout("%yes");
  EXPECT_FALSE(passes::drop_identities(model, {}));
  EXPECT_EQ(count(model, "aten::dropout"), 1U);
}

/// A part of x.
ir::Model slice(const std::string& end) {
  return graph_model("%x : Tensor", "  %d : Tensor = aten::slice(%x, %zero, %zero, " + end +
                                        ", %one)\n  %y : Tensor = aten::relu(%d)\n  return (%y)\n");
}

TEST(DropIdentities, ASliceOfEverythingIsGone) {
  ir::Model model = slice("%none");
  EXPECT_TRUE(passes::drop_identities(model, {}));
  EXPECT_EQ(count(model, "aten::slice"), 0U);
}

TEST(DropIdentities, ASliceOfAPartStays) {
  ir::Model model = slice("%two");
  EXPECT_FALSE(passes::drop_identities(model, {}));
  EXPECT_EQ(count(model, "aten::slice"), 1U);
}

/// A value times its sigmoid.
std::string silu_of(const std::string& value) {
  return "  %s : Tensor = aten::sigmoid(" + value + ")\n  %y : Tensor = aten::mul(" + value +
         ", %s)\n  return (%y)\n";
}

TEST(GatherActivations, WhatIsWrittenOutAfterALayerIsOneOperator) {
  ir::Model model = after_layer(silu_of("%h"));
  EXPECT_TRUE(passes::gather_activations(model, {}));
  EXPECT_EQ(count(model, "aten::silu"), 1U);
  EXPECT_EQ(count(model, "aten::sigmoid") + count(model, "aten::mul"), 0U);
}

TEST(GatherActivations, OfAnInputItStays) {
  ir::Model model = graph_model("%x : Tensor", silu_of("%x"));
  EXPECT_FALSE(passes::gather_activations(model, {}));
  EXPECT_EQ(count(model, "aten::sigmoid"), 1U);
}

/// x without its mean along an axis, divided by its deviation and scaled; `before` comes first.
ir::Model normalised_along(const std::string& axis, const std::string& before = "") {
  ir::Model model = graph_model("%x : Tensor, %weight : Tensor, %eps : Tensor",
                                before + "  %dims : int[] = prim::Constant[value=[" + axis + R"(]]()
  %m : Tensor = aten::mean(%x, %dims, %yes, %none)
  %c : Tensor = aten::sub(%x, %m, %one)
  %q : Tensor = aten::pow(%c, %two)
  %v : Tensor = aten::mean(%q, %dims, %yes, %none)
  %e : Tensor = aten::add(%v, %eps, %one)
  %s : Tensor = aten::sqrt(%e)
  %n : Tensor = aten::div(%c, %s)
  %y : Tensor = aten::mul(%n, %weight)
  return (%y)
)");
  testing::put_attribute(model, "weight", torch::rand({4}));
  testing::put_attribute(model, "eps", torch::full({1}, 1e-5));
  return model;
}

TEST(GatherLayerNorms, OneOfTheLastDimensionIsOneOperator) {
  ir::Model model = normalised_along("-1");
  EXPECT_TRUE(passes::gather_layer_norms(model, {}));
  EXPECT_EQ(count(model, "aten::layer_norm"), 1U);
  EXPECT_EQ(count(model, "aten::mean") + count(model, "aten::mul"), 0U);
}

TEST(GatherLayerNorms, OneOfAnotherDimensionStays) {
  ir::Model model = normalised_along("1");
  EXPECT_FALSE(passes::gather_layer_norms(model, {}));
  EXPECT_EQ(count(model, "aten::mean"), 2U);
}

TEST(GatherLayerNorms, OneWhoseEpsilonTheModelChangesStays) {
  ir::Model model = normalised_along("-1", "  %w : Tensor = aten::mul_(%eps, %two)\n");
  EXPECT_FALSE(passes::gather_layer_norms(model, {}));
  EXPECT_EQ(count(model, "aten::layer_norm"), 0U);
}

/// The largest of a and b, and its index.
ir::Model largest(const std::string& results) {
  return graph_model("%a : Tensor, %b : Tensor", R"(
  %l : Tensor[] = prim::ListConstruct(%a, %b)
  %s : Tensor = aten::stack(%l, %zero)
  %m : Tensor, %i : Tensor = aten::max(%s, %zero, %no)
  return ()" + results + ")\n");
}

TEST(MaximumOfStack, TheLargestOfTwoIsTheirMaximum) {
  ir::Model model = largest("%m");
  EXPECT_TRUE(passes::maximum_of_stack(model, {}));
  EXPECT_EQ(count(model, "aten::maximum"), 1U);
  EXPECT_EQ(count(model, "aten::stack") + count(model, "aten::max"), 0U);
}

TEST(MaximumOfStack, WhereTheIndexIsReadItStays) {
  ir::Model model = largest("%m, %i");
  EXPECT_FALSE(passes::maximum_of_stack(model, {}));
  EXPECT_EQ(count(model, "aten::stack"), 1U);
}

TEST(FoldArithmetic, ALayerTakesTheFactorOfItsOutput) {
  ir::Model model = after_layer("  %y : Tensor = aten::mul(%h, %two)\n  return (%y)\n");
  const ir::Weighted before = testing::layer(model, "layer");
  EXPECT_TRUE(passes::fold_arithmetic(model, {}));
  EXPECT_EQ(count(model, "aten::mul"), 0U);
  EXPECT_TRUE(at::equal(testing::layer(model, "layer").weight, before.weight * 2));
  EXPECT_TRUE(at::equal(testing::layer(model, "layer").bias, before.bias * 2));
}

TEST(FoldArithmetic, WhereOthersReadItsOutputTheFactorStays) {
  ir::Model model = after_layer(
      "  %y : Tensor = aten::mul(%h, %two)\n  %z : Tensor = aten::add(%y, %h, %one)\n  return (%z)\n");
  const at::Tensor before = testing::layer(model, "layer").weight;
  EXPECT_FALSE(passes::fold_arithmetic(model, {}));
  EXPECT_EQ(count(model, "aten::mul"), 1U);
  EXPECT_TRUE(testing::layer(model, "layer").weight.is_same(before));
}

/// A product of x with a matrix of the model's, and a sum.
ir::Model product() {
  ir::Model model = graph_model("%x : Tensor, %w : Tensor, %b : Tensor", R"(
  %t : Tensor = aten::t(%w)
  %y : Tensor = aten::addmm(%b, %x, %t, %one, %one)
  return (%y)
)");
  testing::put_attribute(model, "w", torch::randn({3, 4}));
  testing::put_attribute(model, "b", torch::randn({3}));
  return model;
}

TEST(LiftProducts, ADynamicQConfigMakesOneALayer) {
  ir::Model model = product();
  EXPECT_TRUE(passes::lift_products(model, {.mapping = dynamic_qconfig_mapping()}));
  EXPECT_EQ(count(model, "aten::addmm"), 0U);
  EXPECT_EQ(testing::call_of_layer(model, "linear_0").type, symbol("torch.nn.Linear"));
}

TEST(LiftProducts, AStaticQConfigLeavesItAsItIs) {
  ir::Model model = product();
  EXPECT_FALSE(passes::lift_products(model, {.mapping = default_qconfig_mapping("x86")}));
  EXPECT_EQ(count(model, "aten::addmm"), 1U);
  EXPECT_EQ(count(model, "prim::tsq_module"), 0U);
}

/// What raises an error unless x has two dimensions, out of a file of Python's.
ir::Model asserting(const std::string& file) {
  ir::Model model = graph_model("%x : Tensor", R"(
  %text : str = prim::Constant[value="expected two dimensions"]()
  %d : int = aten::dim(%x)
  %c : bool = aten::ne(%d, %two)
  prim::If(%c)
    block0():
      prim::RaiseException(%text, %none)
      -> ()
    block1():
      -> ()
  %y : Tensor = aten::relu(%x)
  return (%y)
)");
  const std::string code = "if input.dim() != 2:";
  const auto source = std::make_shared<torch::jit::Source>(code, file, 1);
  for (ir::Node* node : ir::nodes_in_order(*model.graph))
    node->setSourceRange(torch::jit::SourceRange(source, 0, code.size()));
  return model;
}

TEST(DropLibraryAssertions, ThoseOfTorchAreGone) {
  ir::Model model = asserting("/lib/torch/nn/functional.py");
  EXPECT_TRUE(passes::drop_library_assertions(model, {}));
  EXPECT_EQ(count(model, "prim::If") + count(model, "aten::dim"), 0U);
  EXPECT_EQ(count(model, "aten::relu"), 1U);
}

TEST(DropLibraryAssertions, ThoseOfTheUserStay) {
  ir::Model model = asserting("/home/user/model.py");
  EXPECT_FALSE(passes::drop_library_assertions(model, {}));
  EXPECT_EQ(count(model, "prim::RaiseException"), 1U);
}

}  // namespace rewrite_passes_test
}  // namespace tsq
