// Passes of the room tune by themselves, on graphs of kernels: what each changes, and what it leaves alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>

#include "ir/analysis.h"
#include "passes/tune/passes.h"
#include "support/calibrated_model.h"
#include "support/graph_model.h"

namespace tsq {
namespace tune_passes_test {

using testing::count;
using ::testing::ElementsAre;
using testing::model_of_graph;
using testing::node_named;
using ::testing::StartsWith;
using torch::jit::testing::FileCheck;

/// The average of whole images of `input`.
ir::Model average(const std::string& input) {
  return model_of_graph("%x : Tensor, %packed : Tensor", R"(
  %c : Tensor = quantized::conv2d(%x, %packed, %scale, %zero)
  %d : Tensor = aten::dequantize(%c)
  %s : int[] = prim::ListConstruct(%one, %one)
  %y : Tensor = aten::adaptive_avg_pool2d()" + input + R"(, %s)
  return (%y)
)");
}

TEST(PoolAverages, OfAConvolutionsOutputAreAPool) {
  ir::Model model = average("%d");
  EXPECT_TRUE(passes::pool_averages(model, {}));
  EXPECT_EQ(count(model, "aten::avg_pool2d"), 1U);
  EXPECT_EQ(count(model, "aten::adaptive_avg_pool2d"), 0U);
}

TEST(PoolAverages, OfAnInputStayAsTheyAre) {
  ir::Model model = average("%x");
  EXPECT_FALSE(passes::pool_averages(model, {}));
  EXPECT_EQ(count(model, "aten::adaptive_avg_pool2d"), 1U);
}

ir::Model dynamic_linear(const std::string& reduce_range) {
  return model_of_graph(
      "%x : Tensor, %packed : Tensor",
      "  %y : Tensor = quantized::linear_dynamic(%x, %packed, " + reduce_range + ")\n  return (%y)\n");
}

bool reduces_range(const ir::Model& model) {
  return torch::jit::toIValue(node_named(model, "y")->inputs().back())->toBool();
}

TEST(WidenDynamicRanges, AllCodesAreUsedWhereTheProcessorIsExact) {
  ir::Model model = dynamic_linear("%yes");
  EXPECT_TRUE(passes::widen_dynamic_ranges(model, {.target = {.engine = "fbgemm", .cpu = TargetCpu::Vnni}}));
  EXPECT_FALSE(reduces_range(model));
}

TEST(WidenDynamicRanges, HalfOfThemWhereItAddsIn16Bits) {
  ir::Model model = dynamic_linear("%yes");
  EXPECT_FALSE(
      passes::widen_dynamic_ranges(model, {.target = {.engine = "fbgemm", .cpu = TargetCpu::WithoutVnni}}));
  EXPECT_TRUE(reduces_range(model));
}

TEST(WidenDynamicRanges, WhatUsesAllOfThemStays) {
  ir::Model model = dynamic_linear("%no");
  EXPECT_FALSE(passes::widen_dynamic_ranges(model, {.target = {.engine = "fbgemm", .cpu = TargetCpu::Vnni}}));
}

/// Two linear layers, a and b, that quantize x; `rest` returns what is made of them.
ir::Model two_layers(const std::string& rest) {
  ir::Model model = model_of_graph("%x : Tensor, %p : Tensor, %k : Tensor",
                                   "  %a : Tensor = quantized::linear_dynamic(%x, %p, %no)\n"
                                   "  %b : Tensor = quantized::linear_dynamic(%x, %k, %no)\n" +
                                       rest);
  for (const char* name : {"a", "b"}) testing::quantized_record(model, name);
  testing::put_attribute(model, "p", testing::packed_linear(testing::rounded_linear(8, 4)));
  testing::put_attribute(model, "k", testing::packed_linear(testing::rounded_linear(8, 6)));
  return model;
}

TEST(JoinLinearLayers, ThePassMakesOneOfThem) {
  ir::Model model = two_layers(R"(
  %t : Tensor = aten::tanh(%a)
  %u : Tensor = aten::tanh(%b)
  %l : Tensor[] = prim::ListConstruct(%t, %u)
  %z : Tensor = aten::cat(%l, %one)
  return (%z)
)");
  EXPECT_TRUE(passes::join_linear_layers(model, {}));
  EXPECT_EQ(count(model, "quantized::linear_dynamic"), 1U);
  EXPECT_EQ(count(model, "aten::split_with_sizes"), 1U);
  for (const ir::NodeRecord& record : model.records)
    EXPECT_THAT(record.decision.notes, ElementsAre(StartsWith("its input is quantized once")));
}

TEST(JoinLinearLayers, ThePassLeavesThoseThatTheCallerSees) {
  ir::Model model = two_layers("  return (%a, %b)\n");
  EXPECT_FALSE(passes::join_linear_layers(model, {}));
  EXPECT_EQ(count(model, "quantized::linear_dynamic"), 2U);
}

ir::Model convolution(const std::string& kernel) {
  ir::Model model = model_of_graph(
      "%x : Tensor, %packed : Tensor",
      "  %q : Tensor = aten::quantize_per_tensor(%x, %scale, %zero, %quint8)\n  %y : Tensor = " + kernel +
          "(%q, %packed, %scale, %zero)\n  %z : Tensor = aten::dequantize(%y)\n  return (%z)\n");
  testing::quantized_record(model, "y").decision.kernel = kernel;
  return model;
}

TEST(SignalsAsImages, HaveAHeightOfOne) {
  ir::Model model = convolution("quantized::conv1d");
  EXPECT_TRUE(passes::signals_as_images(model, {}));
  FileCheck()
      .check("aten::unsqueeze")
      ->check("aten::quantize_per_tensor")
      ->check("quantized::conv2d")
      ->check("aten::squeeze")
      ->run(*model.graph);
  EXPECT_EQ(count(model, "quantized::conv1d"), 0U);
  EXPECT_EQ(model.records.front().decision.kernel, "quantized::conv2d");
}

TEST(SignalsAsImages, ImagesStayAsTheyAre) {
  ir::Model model = convolution("quantized::conv2d");
  EXPECT_FALSE(passes::signals_as_images(model, {}));
  EXPECT_EQ(count(model, "aten::unsqueeze"), 0U);
}

TEST(BatchDynamicInputs, ASampleIsMadeABatchOfOne) {
  ir::Model model = dynamic_linear("%no");
  EXPECT_TRUE(passes::batch_dynamic_inputs(model, {}));
  FileCheck()
      .check("aten::dim")
      ->check("prim::If")
      ->check("aten::unsqueeze")
      ->check("quantized::linear_dynamic")
      ->check("prim::If")
      ->check("aten::squeeze")
      ->run(*model.graph);
}

TEST(BatchDynamicInputs, KernelsOfQuantizedTensorsStay) {
  ir::Model model = convolution("quantized::conv2d");
  EXPECT_FALSE(passes::batch_dynamic_inputs(model, {}));
  EXPECT_EQ(count(model, "prim::If"), 0U);
}

TEST(ShapeEmptyResults, OneDnnsLinearLayersKeepTheDimensionsOfEmptyTensors) {
  ir::Model model = dynamic_linear("%no");
  EXPECT_FALSE(passes::shape_empty_results(model, {.target = {.engine = "x86"}}));
  EXPECT_TRUE(passes::shape_empty_results(model, {.target = {.engine = "onednn"}}));
  FileCheck()
      .check("quantized::linear_dynamic")
      ->check("aten::numel")
      ->check("prim::If")
      ->check("aten::unflatten")
      ->run(*model.graph);
}

TEST(ShapeEmptyResults, AMatrixNeedsNone) {
  ir::Model model = model_of_graph("%x : Tensor, %packed : Tensor", R"(
  %last : int = prim::Constant[value=-1]()
  %f : Tensor = aten::flatten(%x, %one, %last)
  %y : Tensor = quantized::linear_dynamic(%f, %packed, %no)
  return (%y)
)");
  EXPECT_FALSE(passes::shape_empty_results(model, {.target = {.engine = "onednn"}}));
}

}  // namespace tune_passes_test
}  // namespace tsq
