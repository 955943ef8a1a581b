// Each pass of the room lower by itself, on a graph: what it changes, and what it leaves alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/error.h>

#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "passes/lower/passes.h"
#include "support/before_pass.h"
#include "support/graph_model.h"
#include "support/pass_model.h"
#include "support/recurrent_cells.h"
#include "support/small_models.h"
#include "torchscript/modules/embedding.h"

namespace tsq {
namespace lower_passes_test {

using ir::Placement;
using ir::Reason;
using testing::count;
using ::testing::HasSubstr;
using testing::model_of_graph;
using ::testing::StartsWith;
using torch::jit::Module;
using torch::jit::testing::FileCheck;

constexpr const char* kHardswish = R"(
  %q : Tensor = aten::quantize_per_tensor(%x, %scale, %zero, %quint8)
  %d : Tensor = aten::dequantize(%q)
  %y : Tensor = aten::hardswish(%d)
  %r : Tensor = aten::quantize_per_tensor(%y, %scale, %zero, %quint8)
  %z : Tensor = aten::dequantize(%r)
  return (%z)
)";

/// hardswish between dequantize and quantize.
ir::Model hardswish() {
  ir::Model model = model_of_graph("%x : Tensor", kHardswish);
  testing::quantized_record(model, "y");
  return model;
}

/// The only entry of the report.
const Decision& decision_in(const ir::Model& model) { return model.records.front().decision; }

TEST(KeepReference, AnOperatorThatTheCallerNamesGetsNoKernel) {
  ir::Model model = hardswish();
  EXPECT_TRUE(passes::keep_reference(model, {.lowering = {.kept_reference = {{"y", "its kernel fails"}}}}));
  EXPECT_EQ(model.records.front().placement, Placement::Reference);
  EXPECT_EQ(model.records.front().reason, Reason::KeptReference);
  EXPECT_FALSE(decision_in(model).quantized);
  EXPECT_EQ(decision_in(model).reason, "computed in float between dequantize and quantize: its kernel fails");
  EXPECT_FALSE(passes::lower_static(model, {}));
}

TEST(KeepReference, OthersGetTheirs) {
  ir::Model model = hardswish();
  EXPECT_FALSE(passes::keep_reference(model, {.lowering = {.kept_reference = {{"elsewhere", "why"}}}}));
  EXPECT_EQ(model.records.front().placement, Placement::Int8);
  EXPECT_TRUE(decision_in(model).quantized);
}

TEST(KeepReference, WhatWritesIntoMemoryStaysWhereItIs) {
  ir::Model model = hardswish();
  model.records.front().placement = Placement::Written;
  EXPECT_FALSE(passes::keep_reference(model, {.lowering = {.kept_reference = {{"y", "why"}}}}));
  EXPECT_EQ(model.records.front().placement, Placement::Written);
}

/// A product, clamped and then quantized to 0 … 12.75.
ir::Model clamped(const std::string& clamp, const std::string& inputs = "%x : Tensor") {
  return model_of_graph(inputs, "  %a : Tensor = aten::matmul(%x, %x)\n" + clamp +
                                    "  %q : Tensor = aten::quantize_per_tensor(%y, %scale, %zero, %quint8)\n"
                                    "  %z : Tensor = aten::dequantize(%q)\n  return (%z)\n");
}

TEST(SaturateClamps, AClampOfNoMoreThanTheRangeGoesAway) {
  ir::Model model = clamped("  %y : Tensor = aten::relu(%a)\n");
  EXPECT_TRUE(passes::saturate_clamps(model, {}));
  EXPECT_EQ(count(model, "aten::relu"), 0U);
}

TEST(SaturateClamps, OthersRunOnQuantizedValues) {
  ir::Model model = clamped("  %y : Tensor = aten::clamp(%a, %one, %two)\n");
  EXPECT_TRUE(passes::saturate_clamps(model, {}));
  FileCheck()
      .check("aten::matmul")
      ->check("aten::quantize_per_tensor")
      ->check("aten::dequantize")
      ->check("aten::clamp")
      ->check("aten::quantize_per_tensor")
      ->run(*model.graph);
}

TEST(SaturateClamps, OneThatReadsQuantizedValuesStays) {
  ir::Model model = clamped("  %d : Tensor = aten::dequantize(%x)\n  %y : Tensor = aten::relu(%d)\n");
  EXPECT_FALSE(passes::saturate_clamps(model, {}));
  EXPECT_EQ(count(model, "aten::relu"), 1U);
}

ir::Model concatenation(const std::string& second) {
  ir::Model model = model_of_graph("%x : Tensor, %u : Tensor", R"(
  %a : Tensor = aten::dequantize(%x)
  %b : Tensor = aten::dequantize(%u)
  %l : Tensor[] = prim::ListConstruct(%a, )" + second + R"()
  %y : Tensor = aten::cat(%l, %one)
  %q : Tensor = aten::quantize_per_tensor(%y, %scale, %zero, %quint8)
  %z : Tensor = aten::dequantize(%q)
  return (%z)
)");
  testing::quantized_record(model, "y");
  return model;
}

TEST(RequantizeConcatenations, OfQuantizedTensorsAreAKernel) {
  ir::Model model = concatenation("%b");
  EXPECT_TRUE(passes::requantize_concatenations(model, {}));
  EXPECT_EQ(count(model, "quantized::cat"), 1U);
  EXPECT_EQ(count(model, "aten::cat") + count(model, "aten::quantize_per_tensor"), 0U);
  EXPECT_EQ(decision_in(model).kernel, "quantized::cat");
}

TEST(RequantizeConcatenations, OfAFloatTensorStay) {
  ir::Model model = concatenation("%u");
  EXPECT_FALSE(passes::requantize_concatenations(model, {}));
  EXPECT_EQ(count(model, "aten::cat"), 1U);
}

TEST(RequantizeConcatenations, ThatTheCallerKeepsStay) {
  ir::Model model = concatenation("%b");
  model.records.front().placement = Placement::Reference;
  EXPECT_FALSE(passes::requantize_concatenations(model, {}));
}

/// A row for the operator of hardswish().
LoweringRow row_for(const ir::Model& model, std::string kernel) {
  return {.backend = "x86",
          .op = ir::targets(model, testing::node_named(model, "y")).front(),
          .kernel = std::move(kernel)};
}

TEST(LowerRegistered, TheRowNamesTheKernel) {
  ir::Model model = hardswish();
  EXPECT_TRUE(passes::lower_registered(model, {.lowering_rows = {row_for(model, "quantized::hardswish")}}));
  EXPECT_EQ(count(model, "quantized::hardswish"), 1U);
  EXPECT_EQ(count(model, "aten::hardswish"), 0U);
  EXPECT_EQ(decision_in(model).kernel, "quantized::hardswish");
}

TEST(LowerRegistered, OperatorsWithoutARowStay) {
  ir::Model model = hardswish();
  EXPECT_FALSE(passes::lower_registered(model, {}));
  LoweringRow row = row_for(model, "quantized::hardswish");
  row.op = symbol("torch.nn.functional.gelu");
  EXPECT_FALSE(passes::lower_registered(model, {.lowering_rows = {row}}));
}

TEST(LowerRegistered, AKernelThatTakesOtherArgumentsIsAnError) {
  ir::Model model = hardswish();
  EXPECT_THROW(passes::lower_registered(model, {.lowering_rows = {row_for(model, "quantized::add")}}), Error);
}

TEST(LowerStatic, AnOperatorBetweenQuantizedTensorsIsAKernel) {
  ir::Model model = hardswish();
  EXPECT_TRUE(passes::lower_static(model, {}));
  EXPECT_EQ(count(model, "quantized::hardswish"), 1U);
  EXPECT_EQ(count(model, "aten::hardswish"), 0U);
  EXPECT_EQ(decision_in(model).kernel, "quantized::hardswish");
}

TEST(LowerStatic, WhatHasAnotherPlacementStays) {
  for (const Placement placement : {Placement::Reference, Placement::Written, Placement::Int8FloatOut}) {
    ir::Model model = hardswish();
    model.records.front().placement = placement;
    EXPECT_FALSE(passes::lower_static(model, {}));
    EXPECT_EQ(count(model, "aten::hardswish"), 1U);
  }
}

TEST(LowerStatic, WhatNobodyAskedToQuantizeGetsAKernelBetweenQuantizedTensors) {
  ir::Model model = hardswish();
  model.records.front().placement = Placement::Float;
  Decision& decision = model.records.front().decision;
  decision.quantized = false;
  decision.reason = "no qconfig";
  EXPECT_TRUE(passes::lower_static(model, {}));
  EXPECT_TRUE(decision_in(model).quantized);
  EXPECT_TRUE(decision_in(model).reason.empty());
  EXPECT_THAT(decision_in(model).notes, ::testing::ElementsAre(StartsWith("no qconfig, but")));
}

/// A linear layer that reads what `quantize` makes of x; `rest` computes z of its result y.
ir::Model linear(const ir::Weighted& layer, const std::string& quantize, const std::string& rest,
                 const QConfig& qconfig = default_qconfig("x86")) {
  ir::Model model = model_of_graph("%x : Tensor", "  %q : Tensor = " + quantize +
                                                      "\n  %d : Tensor = aten::dequantize(%q)\n"
                                                      "  %y : Tensor = aten::relu(%d)\n" +
                                                      rest + "  return (%z)\n");
  testing::quantized_record(model, "y", qconfig);
  testing::put_call(model, "y", testing::linear_call(layer));
  return model;
}

constexpr const char* kStatic = "aten::quantize_per_tensor(%x, %scale, %zero, %quint8)";
constexpr const char* kDynamic = "aten::quantize_per_tensor_dynamic(%x, %quint8, %no)";
constexpr const char* kQuantized =
    "  %r : Tensor = aten::quantize_per_tensor(%y, %scale, %zero, %quint8)\n"
    "  %z : Tensor = aten::dequantize(%r)\n";
constexpr const char* kFloat = "  %z : Tensor = aten::neg(%y)\n";

TEST(LowerStatic, ALayerReadsItsPackedWeight) {
  ir::Model model = linear(testing::rounded_linear(8, 4), kStatic, kQuantized);
  EXPECT_TRUE(passes::lower_static(model, {}));
  FileCheck().check("prim::GetAttr")->check("quantized::linear")->run(*model.graph);
  EXPECT_TRUE(model.attributes.hasattr("layer_packed_params"));
}

TEST(LowerStatic, TheDtypeOfItsWeightAloneKeepsALayer) {
  for (const c10::ScalarType dtype : {c10::ScalarType::QInt8, c10::ScalarType::QUInt8}) {
    const bool has_kernel = dtype == c10::ScalarType::QInt8;
    ir::Model model = linear(testing::rounded_linear(8, 4, dtype), kStatic, kQuantized);
    EXPECT_EQ(passes::lower_static(model, {}), has_kernel);
    EXPECT_EQ(count(model, "quantized::linear"), has_kernel ? 1U : 0U);
    EXPECT_EQ(count(model, "aten::quantize_per_tensor"), has_kernel ? 1U : 2U) << "its pairs stay";
  }
}

TEST(LowerStatic, AFaultOfTheKernelLeavesTheReference) {
  ir::Model model = model_of_graph("%x : Tensor", R"(
  %q : Tensor = aten::quantize_per_tensor(%x, %scale, %zero, %quint8)
  %d : Tensor = aten::dequantize(%q)
  %y : Tensor = aten::clamp(%d, %one, %none)
  %r : Tensor = aten::quantize_per_tensor(%y, %scale, %zero, %quint8)
  %z : Tensor = aten::dequantize(%r)
  return (%z)
)");
  testing::quantized_record(model, "y");
  EXPECT_TRUE(passes::lower_static(model, {.target = {.engine = "qnnpack"}}));
  EXPECT_EQ(count(model, "aten::dequantize"), 2U);
  EXPECT_EQ(model.records.front().placement, Placement::Reference);
  EXPECT_EQ(model.records.front().reason, Reason::KernelFault);
  EXPECT_EQ(decision_in(model).reason,
            "computed in float between dequantize and quantize: qnnpack's clamp takes two bounds only");
}

QConfig dynamic_qconfig() { return qconfig("default_dynamic_qconfig"); }

TEST(LowerDynamic, ALayerThatIsQuantizedAtRunTimeIsAKernelWithItsRecord) {
  ir::Model model = linear(testing::rounded_linear(8, 4), kDynamic, kFloat, dynamic_qconfig());
  EXPECT_TRUE(passes::lower_dynamic(model, {}));
  EXPECT_EQ(count(model, "quantized::linear_dynamic"), 1U);
  EXPECT_EQ(count(model, "aten::quantize_per_tensor_dynamic") + count(model, "aten::dequantize"), 0U);
  for (const ir::Node* node : model.graph->nodes()) {
    if (node->kind().toQualString() != std::string_view("quantized::linear_dynamic")) continue;
    ASSERT_NE(ir::decision_of(model, node), nullptr);
    EXPECT_EQ(ir::decision_of(model, node)->kernel, "quantized::linear_dynamic");
  }
}

TEST(LowerDynamic, ALayerOfStaticInputStays) {
  ir::Model model = linear(testing::rounded_linear(8, 4), kStatic, kFloat);
  EXPECT_FALSE(passes::lower_dynamic(model, {}));
}

TEST(LowerDynamic, AnEngineWithoutTheKernelLeavesItFloat) {
  ir::Weighted layer = testing::rounded_linear(8, 4, c10::ScalarType::Half);
  ir::Model model = linear(layer, kDynamic, kFloat, dynamic_qconfig());
  EXPECT_TRUE(passes::lower_dynamic(model, {.target = {.engine = "qnnpack"}}));
  EXPECT_EQ(count(model, "aten::dequantize"), 0U);
  EXPECT_FALSE(ir::call_of(model, testing::node_named(model, "y")).weighted->weight_qparams.has_value());
  EXPECT_EQ(model.records.front().placement, Placement::Float);
  EXPECT_THAT(decision_in(model).reason, StartsWith("the engine has no kernel for it: "));
}

TEST(LowerFloatOutputs, ALayerThatFloatOperatorsReadReturnsFloat) {
  ir::Model model = linear(testing::rounded_linear(8, 4), kStatic, kFloat);
  EXPECT_TRUE(passes::lower_float_outputs(model, {}));
  EXPECT_EQ(count(model, "quantized::linear_with_input_q_dq_qweight_dq_output_fp32"), 1U);
  EXPECT_EQ(model.records.front().placement, Placement::Int8FloatOut);
}

TEST(LowerFloatOutputs, OneWhoseOutputIsQuantizedDoesIfItIsPlacedSo) {
  ir::Model model = linear(testing::rounded_linear(8, 4), kStatic, kQuantized);
  EXPECT_FALSE(passes::lower_float_outputs(model, {}));
  model.records.front().placement = Placement::Int8FloatOut;
  EXPECT_TRUE(passes::lower_float_outputs(model, {}));
  EXPECT_EQ(count(model, "quantized::linear_with_input_q_dq_qweight_dq_output_fp32"), 1U);
}

TEST(LowerFloatOutputs, AReferenceStays) {
  ir::Model model = linear(testing::rounded_linear(8, 4), kStatic, kFloat);
  model.records.front().placement = Placement::Reference;
  EXPECT_FALSE(passes::lower_float_outputs(model, {}));
}

/// A GRU cell whose weights are rounded when the model is lowered.
ir::Model rounded_cell(const QConfig& qconfig) {
  Module network = testing::user_module("Network");
  network.register_module("cell", testing::gru_cell());
  network.define("def forward(self, x):\n  return self.cell.forward(x, x)\n");
  ir::Model model = testing::captured(network);
  const ir::Node* node = testing::call_node(model, "cell");
  testing::quantized_record(model, node->output()->debugName(), qconfig);
  const QParams qparams{
      .scale = torch::tensor(0.01), .zero_point = torch::tensor(0L), .dtype = c10::ScalarType::QInt8};
  ir::call_of(model, node).recurrent_qparams = {qparams, qparams};
  return model;
}

TEST(LowerRecurrent, ACellThatIsQuantizedAtRunTimeHasAKernelInItsModule) {
  ir::Model model = rounded_cell(dynamic_qconfig());
  const Module before = *testing::call_of_layer(model, "cell").module;
  EXPECT_TRUE(passes::lower_recurrent(model, {}));
  const ir::ModuleCall& call = testing::call_of_layer(model, "cell");
  EXPECT_NE(call.module->_ivalue(), before._ivalue());
  EXPECT_TRUE(call.recurrent_qparams.empty());
  EXPECT_EQ(decision_in(model).kernel, "quantized::quantized_gru_cell_dynamic");
}

TEST(LowerRecurrent, ACellOfAStaticQConfigStays) {
  ir::Model model = rounded_cell(default_qconfig("x86"));
  EXPECT_FALSE(passes::lower_recurrent(model, {}));
}

/// A lookup of rows in a table.
ir::Model lookup(const ir::EmbeddingTable& table) {
  ir::Model model = model_of_graph("%x : Tensor", "  %y : Tensor = aten::neg(%x)\n  return (%y)\n");
  testing::quantized_record(model, "y", embedding_weight_only_qconfig(8));
  testing::put_call(model, "y", {.type = symbol("torch.nn.Embedding"), .path = "words", .embedding = table});
  return model;
}

ir::EmbeddingTable table_of(const at::Tensor& weight) {
  return {.weight = weight, .weight_qparams = observe_once(embedding_weight_only_qconfig(8).weight, weight)};
}

TEST(LowerEmbeddings, ATableBecomesRowsOfBytes) {
  torch::manual_seed(2);
  ir::Model model = lookup(table_of(torch::randn({20, 16})));
  EXPECT_TRUE(passes::lower_embeddings(model, {}));
  EXPECT_EQ(decision_in(model).kernel, "quantized::embedding_bag_byte_rowwise_offsets");
  EXPECT_TRUE(ir::call_of(model, testing::node_named(model, "y")).module->hasattr("rows"));
}

TEST(LowerEmbeddings, ATableThatConvertLeftFloatSaysWhy) {
  ir::Model model = lookup({});
  ir::call_of(model, testing::node_named(model, "y")).embedding.reset();
  EXPECT_TRUE(passes::lower_embeddings(model, {}));
  EXPECT_FALSE(decision_in(model).quantized);
  EXPECT_EQ(decision_in(model).reason, "the file does not show its mode and arguments");
}

TEST(LowerEmbeddings, OneThatNobodyAskedToQuantizeStays) {
  ir::Model model = lookup({.weight = torch::randn({20, 16})});
  model.records.front().lookup.qconfig.reset();
  EXPECT_FALSE(passes::lower_embeddings(model, {}));
}

/// An embedding in rows of bytes with the weight of `words`, and a packed linear layer with that of `head`.
ir::Model words_and_head(const ir::Weighted& words, const ir::Weighted& head) {
  ir::Model model = model_of_graph("%x : Tensor, %packed : Tensor", R"(
  %y : Tensor = aten::neg(%x)
  %z : Tensor = quantized::linear_dynamic(%y, %packed, %no)
  return (%z)
)");
  const ir::EmbeddingTable table{.weight = words.weight, .weight_qparams = words.weight_qparams};
  testing::put_call(model, "y",
                    {.type = symbol("torch.nn.Embedding"),
                     .path = "words",
                     .module = torchscript::quantized_embedding(table, torchscript::packed_rows(table)),
                     .embedding = table});
  testing::put_attribute(model, "packed", testing::packed_linear(head));
  return model;
}

/// A layer whose weight has the values that it is rounded to, as tie_tables leaves it.
ir::Weighted tied_layer() {
  ir::Weighted layer = testing::rounded_linear(16, 20);
  layer.weight = kernels::quantized_weight(layer).dequantize();
  return layer;
}

TEST(HoldTiedTablesOnce, ALayerWithTheCodesOfATableIsPackedOutOfIt) {
  const ir::Weighted layer = tied_layer();
  ir::Model model = words_and_head(layer, layer);
  EXPECT_TRUE(passes::hold_tied_tables_once(model, {}));
  FileCheck()
      .check("prim::GetAttr[name=\"packed_tied\"]")
      ->check("prim::GetAttr[name=\"packed\"]")
      ->check("quantized::linear_dynamic")
      ->run(*model.graph);
}

TEST(HoldTiedTablesOnce, ALayerWithCodesOfItsOwnKeepsThem) {
  const ir::Weighted layer = tied_layer();
  ir::Weighted other = layer;
  other.weight = layer.weight.flip(0);
  ir::Model model = words_and_head(layer, other);
  EXPECT_FALSE(passes::hold_tied_tables_once(model, {}));
  EXPECT_FALSE(model.attributes.hasattr("packed_tied"));
}

/// A linear layer that reads x as it is.
ir::Model weight_only(const ir::Weighted& layer) {
  ir::Model model = model_of_graph("%x : Tensor", "  %y : Tensor = aten::neg(%x)\n  return (%y)\n");
  testing::quantized_record(model, "y", weight_only_qconfig(8));
  testing::put_call(model, "y", testing::linear_call(layer));
  return model;
}

TEST(LowerWeightOnlyLinear, ItsKernelReadsInt8) {
  ir::Model model = weight_only(testing::rounded_linear(32, 4));
  EXPECT_TRUE(passes::lower_weight_only_linear(model, {}));
  const ir::ModuleCall& call = ir::call_of(model, testing::node_named(model, "y"));
  EXPECT_FALSE(call.weighted.has_value());
  EXPECT_TRUE(call.module->hasattr("scales"));
  EXPECT_THAT(decision_in(model).kernel, HasSubstr("_weight_int8pack_mm"));
  EXPECT_EQ(decision_in(model).weights, "8-bit");
}

TEST(LowerWeightOnlyLinear, AWeightThatNoKernelTakesStays) {
  ir::Model model = weight_only(testing::rounded_linear(32, 4, c10::ScalarType::QUInt8));
  EXPECT_TRUE(passes::lower_weight_only_linear(model, {}));
  EXPECT_TRUE(ir::call_of(model, testing::node_named(model, "y")).weighted.has_value());
  EXPECT_EQ(model.records.front().placement, Placement::Reference);
  EXPECT_THAT(decision_in(model).reason, StartsWith("no kernel takes its weight (quint8)"));
}

TEST(LowerWeightOnlyLinear, ALayerOfAnotherQConfigStays) {
  ir::Model model = weight_only(testing::rounded_linear(32, 4));
  model.records.front().lookup.qconfig = default_qconfig("x86");
  EXPECT_FALSE(passes::lower_weight_only_linear(model, {}));
}

}  // namespace lower_passes_test
}  // namespace tsq
