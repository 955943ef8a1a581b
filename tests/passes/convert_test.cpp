#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/inlined_graph.h"
#include "passes/context/nodes.h"
#include "passes/convert/passes.h"
#include "passes/numerics/passes.h"
#include "passes/place/passes.h"
#include "support/before_pass.h"
#include "support/calibrated_model.h"
#include "support/small_models.h"

namespace tsq {
namespace convert_test {

using torch::jit::Module;
using torch::jit::testing::FileCheck;

Prepared calibrated(const Module& model, std::string_view backend_name) {
  Prepared prepared = prepare(model, default_qconfig_mapping(backend_name), backend_config(backend_name),
                              {.recipe = Recipe::Fx});
  torch::manual_seed(1);
  const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}};
  calibrate(prepared, samples);
  return prepared;
}

Reference reference_of(const Module& model, std::string_view backend_name) {
  return convert_to_reference(calibrated(model, backend_name), backend_config(backend_name));
}

/// The code of forward with that of the modules that it calls.
std::string graph_of(const Module& module) { return operators::inlined_graph(module, "forward")->toString(); }

TEST(Convert, ATransposedConvolutionGetsAPerTensorWeight) {  // B-19, B-23: FX refuses the whole model
  Module model = testing::user_module("Up");
  model.register_module("up", testing::conv_transpose2d(3, 3, 3));
  model.define("def forward(self, x):\n  return self.up.forward(x)\n");
  const Reference reference = reference_of(model, "onednn");
  FileCheck().check_not("quantize_per_channel")->check("conv_transpose2d")->run(graph_of(reference.module()));
  FileCheck().check("quantized::conv_transpose2d")->run(graph_of(lower(reference, backend_config("onednn"))));
}

TEST(Convert, AnOrdinaryConvolutionKeepsItsPerChannelWeight) {  // K-09
  Module model = testing::user_module("Plain");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  return self.conv.forward(x)\n");
  FileCheck().check("quantize_per_channel")->run(graph_of(reference_of(model, "onednn").module()));
}

Module two_convolutions() {
  Module model = testing::user_module("Two");
  model.register_module("first", testing::conv2d(3, 4, 3));
  model.register_module("second", testing::conv2d(4, 2, 3));
  model.define("def forward(self, x):\n  return self.second.forward(self.first.forward(x))\n");
  return model;
}

testing::CalibratedModel placed(const Prepared& prepared) {
  testing::CalibratedModel result = testing::calibrated_model(prepared);
  passes::place_by_table(result.model, result.context);
  return result;
}

void place(ir::Model& model, const std::string& path, ir::Placement placement) {
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_module_call(node) && ir::call_of(model, node).path == path)
      ir::record_of(model, node)->placement = placement;
  }
}

TEST(QuantizeWeights, AWeightIsRoundedWhereItsLayerIsPlacedInInt8) {
  auto [model, context] = placed(calibrated(two_convolutions(), "x86"));
  place(model, "second", ir::Placement::Float);
  EXPECT_TRUE(passes::quantize_weights(model, context));
  const auto& qparams = testing::layer(model, "first").weight_qparams;
  ASSERT_TRUE(qparams);
  EXPECT_EQ(qparams->dtype, c10::ScalarType::QInt8);
  EXPECT_EQ(qparams->scale.numel(), 4);
  EXPECT_FALSE(testing::layer(model, "second").weight_qparams);
}

TEST(QuantizeWeights, LayersThatStayFloatKeepTheirWeights) {
  auto [model, context] = placed(calibrated(two_convolutions(), "x86"));
  for (const char* path : {"first", "second"}) place(model, path, ir::Placement::Float);
  EXPECT_FALSE(passes::quantize_weights(model, context));
}

TEST(QuantizeWeights, WhatTrainingFoundStaysForLayersInInt8Alone) {
  auto [model, context] = placed(calibrated(two_convolutions(), "x86"));
  const QParams trained{.scale = torch::full({1}, 0.5),
                        .zero_point = torch::zeros({1}, at::kInt),
                        .dtype = c10::ScalarType::QInt8,
                        .qscheme = c10::QScheme::PER_TENSOR_AFFINE};
  for (const char* path : {"first", "second"}) testing::layer(model, path).weight_qparams = trained;
  place(model, "second", ir::Placement::Float);
  EXPECT_TRUE(passes::quantize_weights(model, context));
  EXPECT_TRUE(testing::layer(model, "first").weight_qparams->scale.is_same(trained.scale));
  EXPECT_FALSE(testing::layer(model, "second").weight_qparams);
}

/// Two layers of an LSTM.
Module stacked_lstm() {
  Module model = testing::user_module("Stacked");
  const std::vector<std::vector<int64_t>> shapes{{20, 6}, {20, 5}, {20}, {20}, {20, 5}, {20, 5}, {20}, {20}};
  std::string names;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "p" + std::to_string(i);
    model.register_parameter(name, torch::randn(shapes[i]) * 0.3, false);
    names += "self." + name + ", ";
  }
  model.define("def forward(self, x, h):\n  return torch.lstm(x, [h, h], [" + names +
               "], True, 2, 0.0, False, False, False)[0]\n");
  return model;
}

TEST(QuantizeWeights, TheFirstWeightsOfARecurrentModuleMayStayFloat) {
  auto [model, context] = placed(
      prepare(stacked_lstm(), dynamic_qconfig_mapping(), backend_config("x86"), {.recipe = Recipe::Fx}));
  const auto lstm = std::ranges::find(model.calls, symbol("torch.nn.LSTM"), &ir::ModuleCall::type);
  ASSERT_NE(lstm, model.calls.end());
  lstm->float_recurrent_weights = 2;
  EXPECT_TRUE(passes::quantize_weights(model, context));
  std::vector<c10::ScalarType> dtypes;
  for (const QParams& each : lstm->recurrent_qparams) dtypes.push_back(each.dtype);
  EXPECT_EQ(dtypes, (std::vector{c10::ScalarType::Float, c10::ScalarType::Float, c10::ScalarType::QInt8,
                                 c10::ScalarType::QInt8}));
}

TEST(Convert, EveryObserverThatHasARangeBecomesARounding) {
  auto [model, context] = placed(calibrated(two_convolutions(), "x86"));
  passes::find_qparams(model, context);
  EXPECT_TRUE(passes::convert(model, context));
  EXPECT_EQ(testing::count(model, "prim::tsq_observer"), 0);
  EXPECT_EQ(testing::count(model, "aten::quantize_per_tensor"), 3);
  EXPECT_EQ(testing::count(model, "aten::dequantize"), 3);
  EXPECT_FALSE(passes::convert(model, context)) << "there is nothing left to convert";
}

TEST(Convert, AnObserverWithoutARangeGoesAway) {
  auto [model, context] = placed(calibrated(two_convolutions(), "x86"));
  for (ir::ObserverEntry& entry : model.observers) entry.result = ir::ObserverResult{};
  EXPECT_TRUE(passes::convert(model, context));
  EXPECT_EQ(testing::count(model, "prim::tsq_observer"), 0);
  EXPECT_EQ(testing::count(model, "aten::dequantize"), 0);
}

TEST(Convert, TheTargetDecidesHowManyBitsADynamicRangeHas) {  // K-05
  Module linear = testing::user_module("Linear");
  linear.register_module("fc", testing::linear(4, 4));
  linear.define("def forward(self, x):\n  return self.fc.forward(x)\n");
  for (const auto& [engine, reduces] : {std::pair("x86", true), std::pair("qnnpack", false)}) {
    auto [model, context] =
        placed(prepare(linear, dynamic_qconfig_mapping(), backend_config("x86"), {.recipe = Recipe::Fx}));
    context.target.engine = engine;
    passes::find_qparams(model, context);
    passes::convert(model, context);
    const auto nodes = ir::nodes_in_order(*model.graph);
    const auto quantize = std::ranges::find_if(nodes, [](const ir::Node* node) {
      return node->kind() == c10::Symbol::fromQualString("aten::quantize_per_tensor_dynamic");
    });
    ASSERT_NE(quantize, nodes.end());
    EXPECT_EQ(torch::jit::toIValue((*quantize)->input(2))->toBool(), reduces) << engine;
  }
}

/// if c: dequantize(quantize(x)) else: dequantize(quantize(relu(x))), the second with this scale.
ir::Model two_branches(const std::string& second_scale) {
  ir::Model model;
  model.graph = std::make_shared<ir::Graph>();
  std::unordered_map<std::string, ir::Value*> names;
  torch::jit::parseIR(R"(
graph(%self, %c : bool, %x : Tensor):
  %dtype : int = prim::Constant[value=13]()
  %zero : int = prim::Constant[value=3]()
  %one : float = prim::Constant[value=0.5]()
  %other : float = prim::Constant[value=)" +
                          second_scale + R"(]()
  %y : Tensor = prim::If(%c)
    block0():
      %p : Tensor = aten::quantize_per_tensor(%x, %one, %zero, %dtype)
      %a : Tensor = aten::dequantize(%p)
      -> (%a)
    block1():
      %r : Tensor = aten::relu(%x)
      %q : Tensor = aten::quantize_per_tensor(%r, %other, %zero, %dtype)
      %b : Tensor = aten::dequantize(%q)
      -> (%b)
  %z : Tensor = aten::relu(%y)
  return (%z))",
                      model.graph.get(), names);
  return model;
}

TEST(DequantizeAfterBranches, WhatBothBranchesRoundAlikeStaysQuantized) {
  ir::Model model = two_branches("0.5");
  EXPECT_TRUE(passes::dequantize_after_branches(model, {}));
  EXPECT_EQ(testing::count(model, "aten::dequantize"), 1);
  FileCheck()
      .check("prim::If")
      ->check_not("aten::dequantize")
      ->check("block1")
      ->check("aten::quantize_per_tensor")
      ->check("aten::dequantize")
      ->check("aten::relu")
      ->run(model.graph->toString());
}

TEST(DequantizeAfterBranches, BranchesThatRoundUnlikeStay) {
  ir::Model model = two_branches("0.25");
  EXPECT_FALSE(passes::dequantize_after_branches(model, {}));
  EXPECT_EQ(testing::count(model, "aten::dequantize"), 2);
}

/// Functions whose weights are in half precision and cast where they are used: one that has two names, and
/// the bias of the first.
testing::CalibratedModel before_folding(const std::string& forward) {
  constexpr int64_t kFeatures = 64;
  torch::manual_seed(5);
  Module model = testing::user_module("CastLayers");
  const at::Tensor weight = torch::randn({kFeatures, kFeatures}).div(8).to(at::kHalf);
  for (const char* name : {"w", "v"}) model.register_parameter(name, weight, /*is_buffer=*/false);
  model.register_parameter("b", torch::randn({kFeatures}).to(at::kHalf), /*is_buffer=*/false);
  model.define("def forward(self, x):\n" + forward);
  return testing::before_pass(model, torch::randn({16, kFeatures}), "x86", "fold_cast_weights");
}

/// The attribute that each F.linear reads as an argument; "" where it reads none.
std::vector<std::string> read_by_layers(const ir::Model& model, std::size_t argument) {
  std::vector<std::string> names;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() != c10::aten::linear) continue;
    const std::string* name = ir::attribute_read(model, passes::before_observers(node->input(argument)));
    names.push_back(name == nullptr ? std::string() : *name);
  }
  return names;
}

TEST(FoldCastWeights, WeightsAndBiasesOfLayersInInt8BecomeAttributesInFloat) {
  constexpr std::size_t kBias = 2;
  auto [model, context] = before_folding(
      "  return torch.relu(torch.linear(x, self.w.to(x.device, x.dtype), self.b.to(x.dtype)))\n");
  ASSERT_EQ(read_by_layers(model, kBias), std::vector<std::string>{""});
  EXPECT_TRUE(passes::fold_cast_weights(model, context));
  for (const std::size_t argument : {std::size_t{1}, kBias}) {
    const std::string name = read_by_layers(model, argument).at(0);
    ASSERT_NE(name, "") << argument;
    EXPECT_EQ(model.attributes.attr(name).toTensor().scalar_type(), at::kFloat) << argument;
  }
  EXPECT_FALSE(passes::fold_cast_weights(model, context));
}

TEST(FoldCastWeights, OneTensorOfTwoNamesBecomesOneAttribute) {
  for (const char* cast : {".float()", ".to(x.dtype)"}) {
    auto [model, context] =
        before_folding(std::string("  return torch.linear(torch.relu(torch.linear(x, self.w") + cast +
                       ")), self.v" + cast + ")\n");
    EXPECT_TRUE(passes::fold_cast_weights(model, context)) << cast;
    const auto names = read_by_layers(model, 1);
    ASSERT_EQ(names.size(), 2U) << cast;
    EXPECT_NE(names[0], "") << cast;
    EXPECT_EQ(names[0], names[1]) << cast;
  }
}

TEST(FoldCastWeights, WhatDependsOnTheInputStays) {
  auto [model, context] = before_folding("  return torch.relu(torch.linear(x, self.w.float() * x.mean()))\n");
  EXPECT_FALSE(passes::fold_cast_weights(model, context));
  EXPECT_EQ(read_by_layers(model, 1), std::vector<std::string>{""});
}

}  // namespace convert_test
}  // namespace tsq
