// Passes of the rooms capture and plain by themselves: what each changes, and what it leaves alone.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <utility>

#include "ir/analysis.h"
#include "passes/capture/passes.h"
#include "passes/plain/passes.h"
#include "support/calibrated_model.h"
#include "support/graph_model.h"
#include "support/small_models.h"
#include "torchscript/modules/embedding.h"

namespace tsq {
namespace plain_passes_test {

using testing::count;
using testing::node_named;
using torch::jit::Module;

constexpr const char* kCall = "prim::tsq_module";

/// Without the constants that nothing reads.
ir::Model graph_model(const std::string& inputs, const std::string& text) {
  ir::Model model = testing::model_of_graph(inputs, text);
  ir::eliminate_dead_code(*model.graph);
  return model;
}

/// The attribute that a node reads as one of its inputs; undefined where it reads something else.
at::Tensor attribute_read(const ir::Model& model, const char* node, std::size_t input) {
  const ir::Node* get = node_named(model, node)->input(input)->node();
  return get->kind() == c10::prim::GetAttr ? model.attributes.attr(get->s(c10::attr::name)).toTensor()
                                           : at::Tensor();
}

/// A linear layer that computes its weight, as a parametrization does.
Module computed_linear() {
  Module layer("__torch__.torch.nn.modules.linear.Linear", std::make_shared<torch::jit::CompilationUnit>());
  layer.register_parameter("original", torch::randn({4, 4}), /*is_buffer=*/false);
  layer.define("def forward(self, x):\n  return torch.linear(x, torch.tanh(self.original))\n");
  return layer;
}

Module holding(const Module& layer) {
  Module model = testing::user_module("Holds");
  model.register_module("layer", layer);
  model.define("def forward(self, x):\n  return self.layer.forward(x)\n");
  return model;
}

TEST(CaptureLayers, ALayerThatComputesItsWeightIsOpened) {
  const Module module = holding(computed_linear());
  ir::Model as_fx;
  passes::capture(as_fx, {.source = module});
  EXPECT_EQ(count(as_fx, kCall), 1U);
  ir::Model model;
  ASSERT_TRUE(passes::capture_layers(model, {.source = module}));
  EXPECT_EQ(count(model, kCall), 0U);
  EXPECT_EQ(count(model, "aten::linear"), 1U);
}

TEST(CaptureLayers, ALayerThatHoldsItsWeightStaysACall) {
  ir::Model model;
  ASSERT_TRUE(passes::capture_layers(model, {.source = holding(testing::linear(4, 4))}));
  EXPECT_EQ(testing::call_of_layer(model, "layer").type, symbol("torch.nn.Linear"));
  EXPECT_EQ(count(model, "aten::linear"), 0U);
}

/// Attention of torch.nn as tracing writes it, with one input. Beside exported methods it keeps its
/// attributes.
Module traced_attention() {
  Module layer("__torch__.torch.nn.modules.activation.MultiheadAttention",
               std::make_shared<torch::jit::CompilationUnit>());
  layer.register_attribute("num_heads", c10::IntType::get(), int64_t{2});
  layer.register_parameter("in_proj_weight", torch::randn({12, 4}), /*is_buffer=*/false);
  layer.define("def forward(self, query):\n  return torch.linear(query, self.in_proj_weight)\n");
  return layer;
}

TEST(CaptureLayers, TracedAttentionWithAttributesIsOpenedAsItWasTraced) {
  ir::Model model;
  ASSERT_TRUE(passes::capture_layers(model, {.source = holding(traced_attention())}));
  EXPECT_EQ(count(model, kCall), 0U);
  EXPECT_EQ(count(model, "aten::linear"), 1U);
}

/// A GRU cell, whose weights are inputs.
ir::Model gru_cell() {
  return graph_model(
      "%x : Tensor, %h : Tensor, %w_ih : Tensor, %w_hh : Tensor, %b_ih : Tensor, %b_hh : Tensor",
      "  %y : Tensor = aten::gru_cell(%x, %h, %w_ih, %w_hh, %b_ih, %b_hh)\n  return (%y)\n");
}

TEST(LiftRecurrent, ACellWithConstantWeightsIsACall) {
  ir::Model model = gru_cell();
  for (const char* name : {"w_ih", "w_hh"}) testing::put_attribute(model, name, torch::randn({15, 5}));
  for (const char* name : {"b_ih", "b_hh"}) testing::put_attribute(model, name, torch::randn({15}));
  EXPECT_TRUE(passes::lift_recurrent(model, {}));
  EXPECT_EQ(count(model, "aten::gru_cell"), 0U);
  ASSERT_EQ(model.calls.size(), 1U);
  EXPECT_EQ(model.calls.front().type, symbol("torch.nn.GRUCell"));
  EXPECT_EQ(model.graph->outputs()[0]->node()->inputs().size(), 2U) << "x and h";
}

TEST(LiftRecurrent, ACellWhoseWeightsAreGivenStays) {
  ir::Model model = gru_cell();
  EXPECT_FALSE(passes::lift_recurrent(model, {}));
  EXPECT_EQ(count(model, "aten::gru_cell"), 1U);
}

/// A linear layer whose weight is half of v.
ir::Model half_weight() {
  return graph_model("%x : Tensor, %v : Tensor", R"(
  %w : Tensor = aten::div(%v, %two)
  %y : Tensor = aten::linear(%x, %w, %none)
  return (%y)
)");
}

TEST(FoldConstants, AWeightThatIsComputedOfAParameterIsAnAttribute) {
  ir::Model model = half_weight();
  const at::Tensor v = torch::randn({4, 4});
  testing::put_attribute(model, "v", v);
  EXPECT_TRUE(passes::fold_constants(model, {}));
  EXPECT_EQ(count(model, "aten::div"), 0U);
  EXPECT_TRUE(at::equal(attribute_read(model, "y", 1), v / 2));
}

TEST(FoldConstants, AWeightThatIsComputedOfAnInputIsNot) {
  ir::Model model = half_weight();
  EXPECT_FALSE(passes::fold_constants(model, {}));
  EXPECT_EQ(count(model, "aten::div"), 1U);
}

/// Divides by the root of running statistics, beside a norm that has them.
ir::Model divides_by_deviation(const std::string& trains) {
  ir::Model model = graph_model("%x : Tensor, %mean : Tensor, %variance : Tensor",
                                "  %z : Tensor = aten::batch_norm(%x, %none, %none, %mean, %variance, " +
                                    trains + R"(, %scale, %scale, %no)
  %d : Tensor = aten::sqrt(%variance)
  %s : Tensor = aten::div(%x, %d)
  %y : Tensor = aten::add(%z, %s, %one)
  return (%y)
)");
  testing::put_attribute(model, "mean", torch::zeros({4}));
  testing::put_attribute(model, "variance", torch::full({4}, 9.0));
  return model;
}

TEST(FoldConstants, StatisticsThatANormUpdatesAreNone) {
  ir::Model model = divides_by_deviation("%yes");
  EXPECT_FALSE(passes::fold_constants(model, {}));
  EXPECT_EQ(count(model, "aten::sqrt"), 1U);
  EXPECT_EQ(ir::written_attributes(model), (std::unordered_set<std::string>{"mean", "variance"}));
}

TEST(FoldConstants, StatisticsThatANormOnlyReadsAreSome) {
  ir::Model model = divides_by_deviation("%no");
  EXPECT_TRUE(ir::written_attributes(model).empty());
  EXPECT_TRUE(passes::fold_constants(model, {}));
  EXPECT_EQ(count(model, "aten::sqrt"), 0U);
}

/// x and a tensor of as many numbers as `size` says.
ir::Model sum_with_filled(const std::string& size) {
  return graph_model(
      "%x : Tensor",
      "  %n : int = aten::size(%x, %zero)\n  %sizes : int[] = prim::ListConstruct(" + size + R"()
  %t : Tensor = aten::full(%sizes, %scale, %none, %none, %none, %none)
  %y : Tensor = aten::add(%x, %t, %one)
  return (%y)
)");
}

TEST(FoldLiterals, ATensorThatIsMadeOfConstantsIsAnAttribute) {
  ir::Model model = sum_with_filled("%two");
  EXPECT_TRUE(passes::fold_literals(model, {}));
  EXPECT_EQ(count(model, "aten::full"), 0U);
  EXPECT_TRUE(at::equal(attribute_read(model, "y", 1), torch::full({2}, 0.05)));
}

TEST(FoldLiterals, ATensorOfASizeThatIsComputedIsNot) {
  ir::Model model = sum_with_filled("%n");
  EXPECT_FALSE(passes::fold_literals(model, {}));
  EXPECT_EQ(count(model, "aten::full"), 1U);
}

/// A graph that calls a module.
ir::Model with_call(ir::ModuleCall call) {
  ir::Model model = testing::model_of_graph("%x : Tensor", "  %y : Tensor = aten::neg(%x)\n  return (%y)\n");
  testing::put_call(model, "y", std::move(call));
  return model;
}

TEST(FindEmbeddingTables, AnEmbeddingKnowsItsTable) {
  const ir::EmbeddingTable table{.weight = torch::randn({10, 4})};
  ir::Model model = with_call(
      {.type = symbol("torch.nn.Embedding"), .path = "words", .module = torchscript::float_embedding(table)});
  EXPECT_TRUE(passes::find_embedding_tables(model, {}));
  const auto& found = testing::call_of_layer(model, "words").embedding;
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(at::equal(found->weight, table.weight));
}

TEST(FindEmbeddingTables, AnotherModuleHasNone) {
  ir::Model model =
      with_call({.type = symbol("torch.nn.PReLU"), .path = "words", .module = testing::prelu(4)});
  EXPECT_FALSE(passes::find_embedding_tables(model, {}));
  EXPECT_FALSE(testing::call_of_layer(model, "words").embedding.has_value());
}

}  // namespace plain_passes_test
}  // namespace tsq
