// Each pass of the room pack by itself, on a graph of kernels: what it changes, and what it leaves alone.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <array>

#include "backends/kernels/engine_packing.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "operators/clamp_bounds.h"
#include "passes/pack/passes.h"
#include "support/calibrated_model.h"
#include "support/graph_model.h"

namespace tsq {
namespace pack_passes_test {

using ir::Placement;
using testing::count;
using testing::model_of_graph;
using testing::node_named;

/// A view of `memory`, into which something is written afterwards.
ir::Model view_of(const std::string& memory) {
  return model_of_graph("%x : Tensor, %q : Tensor",
                        "  %s : int[] = prim::ListConstruct(%two, %two)\n"
                        "  %d : Tensor = aten::" +
                            memory + R"(
  %y : Tensor = aten::view(%d, %s)
  %z : Tensor = aten::add_(%y, %one, %one)
  return (%y)
)");
}

TEST(ViewAnyLayout, AViewOfWhatAKernelReturnsMayBeACopy) {
  ir::Model model = view_of("dequantize(%q)");
  const ir::NodeRecord* record = &testing::quantized_record(model, "y");
  EXPECT_TRUE(passes::view_any_layout(model, {}));
  EXPECT_EQ(ir::record_of(model, node_named(model, "y")), record) << "the report goes on telling of it";
  EXPECT_EQ(count(model, "aten::reshape"), 1U);
  EXPECT_EQ(count(model, "aten::view"), 0U);
}

TEST(ViewAnyLayout, WhereItIsWrittenIntoTheMemoryBecomesContiguous) {
  ir::Model model = view_of("dequantize(%q)");
  ir::record_for(model, node_named(model, "y")).placement = Placement::Written;
  EXPECT_TRUE(passes::view_any_layout(model, {}));
  EXPECT_EQ(count(model, "aten::view"), 1U);
  EXPECT_EQ(node_named(model, "y")->input(0)->node()->kind(), c10::aten::contiguous);
}

TEST(ViewAnyLayout, WithoutKernelsEveryViewStays) {
  ir::Model model = view_of("neg(%x)");
  EXPECT_FALSE(passes::view_any_layout(model, {}));
  EXPECT_EQ(count(model, "aten::view"), 1U);
}

TEST(CountDimensions, WithoutConvolutionsItIsLeftToLibTorch) {
  ir::Model model = model_of_graph("%x : Tensor", "  %y : int = aten::dim(%x)\n  return (%y)\n");
  EXPECT_FALSE(passes::count_dimensions(model, {}));
  EXPECT_EQ(count(model, "aten::dim"), 1U);
}

TEST(CountDimensions, WithOneItIsTheLengthOfTheSizes) {
  ir::Model model = model_of_graph("%x : Tensor", R"(
  %stride : int[] = prim::ListConstruct(%one)
  %c : Tensor = aten::conv1d(%x, %x, %none, %stride, %stride, %stride, %one)
  %y : int = aten::dim(%c)
  return (%y)
)");
  EXPECT_TRUE(passes::count_dimensions(model, {}));
  EXPECT_EQ(count(model, "aten::dim"), 0U);
  EXPECT_EQ(count(model, "aten::len"), 1U);
}

/// `op` between dequantize and quantize, and reported as quantized.
ir::Model unlowered(const std::string& op) {
  ir::Model model = model_of_graph("%x : Tensor", R"(
  %q : Tensor = aten::quantize_per_tensor(%x, %scale, %zero, %quint8)
  %d : Tensor = aten::dequantize(%q)
  %u : Tensor = aten::cos(%x)
  %c : Tensor = aten::to(%d, %one, %no, %no, %none)
  %y : Tensor = aten::)" + op + R"(
  %e : Tensor = aten::to(%y, %one, %no, %no, %none)
  %r : Tensor = aten::quantize_per_tensor(%e, %scale, %zero, %quint8)
  %z : Tensor = aten::dequantize(%r)
  return (%z)
)");
  testing::quantized_record(model, "y");
  return model;
}

std::string explained(const std::string& op) {
  ir::Model model = unlowered(op);
  EXPECT_TRUE(passes::explain_unlowered(model, {}));
  const ir::NodeRecord& record = model.records.front();
  EXPECT_EQ(record.placement, Placement::Reference);
  EXPECT_FALSE(record.decision.quantized);
  EXPECT_FALSE(record.decision.remedy.empty());
  return record.decision.reason;
}

TEST(ExplainUnlowered, SaysWhyAnOperatorGotNoKernel) {
  EXPECT_EQ(explained("cos(%d)"),
            "computed in float between dequantize and quantize: no engine has an int8 kernel for aten::cos");
  EXPECT_EQ(explained("hardswish(%u)"),
            "computed in float between dequantize and quantize: it reads the float result of aten::cos "
            "('u')");
}

/// What moves the float result of a quantized layer about, however often.
TEST(ExplainUnlowered, SaysOfWhatALayerReturnsInFloatThatItIsNotRounded) {
  ir::Model model = model_of_graph("%x : Tensor", R"(
  %l : Tensor = aten::cos(%x)
  %a : Tensor = aten::transpose(%l, %zero, %one)
  %b : Tensor = aten::transpose(%a, %zero, %one)
  return (%b)
)");
  testing::quantized_record(model, "l").decision.kernel = "quantized::linear_with_float_output";
  testing::quantized_record(model, "a");
  testing::quantized_record(model, "b");
  EXPECT_TRUE(passes::explain_unlowered(model, {}));
  for (const std::size_t moved : {1, 2}) {
    EXPECT_EQ(model.records[moved].decision.reason,
              "it reads the result of a quantized layer, which returns float where float operators read it");
    EXPECT_EQ(model.records[moved].placement, Placement::Float);
    EXPECT_EQ(model.records[moved].decision.remedy,
              "nothing: values that only float operators read are not rounded");
  }
}

TEST(ExplainUnlowered, LooksThroughCasts) {
  EXPECT_EQ(explained("hardswish(%c)"),
            "computed in float between dequantize and quantize: the kernel of aten::hardswish does not take "
            "its arguments");
}

TEST(ExplainUnlowered, APartOfAMatchStaysFloatWithTheOther) {
  ir::Model model = model_of_graph("%x : Tensor", R"(
  %d : Tensor = aten::dequantize(%x)
  %a : Tensor = aten::cos(%d)
  %b : Tensor = aten::relu(%a)
  %q : Tensor = aten::quantize_per_tensor(%b, %scale, %zero, %quint8)
  %z : Tensor = aten::dequantize(%q)
  return (%z)
)");
  testing::quantized_record(model, "a").partners = {"b"};
  testing::quantized_record(model, "b").partners = {"a"};
  EXPECT_TRUE(passes::explain_unlowered(model, {}));
  const Decision& a = model.records[0].decision;
  const Decision& b = model.records[1].decision;
  EXPECT_EQ(a.reason,
            "computed in float between dequantize and quantize: no engine has an int8 kernel for aten::cos");
  EXPECT_EQ(b.reason,
            "computed in float between dequantize and quantize: it forms one kernel with aten::cos ('a'), "
            "which stays float");
  EXPECT_EQ(b.remedy, a.remedy);
}

TEST(ExplainUnlowered, SaysNothingOfWhatHasAKernelOrWasLeftFloat) {
  ir::Model model = unlowered("cos(%d)");
  model.records.front().decision.kernel = "my::cos";
  EXPECT_FALSE(passes::explain_unlowered(model, {}));
  model = unlowered("cos(%d)");
  model.records.front().decision.quantized = false;
  model.records.front().decision.reason = "no qconfig";
  EXPECT_FALSE(passes::explain_unlowered(model, {}));
  EXPECT_EQ(model.records.front().decision.reason, "no qconfig");
}

/// A layer whose weight is `weight`, packed in each run.
ir::Model packed_in_each_run(const std::string& weight) {
  ir::Model model = model_of_graph("%x : Tensor, %w : Tensor", R"(
  %qint8 : int = prim::Constant[value=12]()
  %q : Tensor = aten::quantize_per_tensor()" + weight + R"(, %scale, %zero, %qint8)
  %packed = quantized::linear_prepack(%q, %none)
  %y : Tensor = quantized::linear_dynamic(%x, %packed, %no)
  return (%y)
)");
  torch::manual_seed(3);
  testing::put_attribute(model, "w", torch::randn({4, 8}));
  return model;
}

TEST(FoldPackedWeights, AWeightOfParametersIsPackedOnce) {
  ir::Model model = packed_in_each_run("%w");
  EXPECT_TRUE(passes::fold_packed_weights(model, {}));
  EXPECT_EQ(count(model, "quantized::linear_prepack"), 0U);
  EXPECT_TRUE(model.attributes.hasattr("_packed_params"));
}

TEST(FoldPackedWeights, AWeightThatDependsOnTheInputIsPackedInEachRun) {
  ir::Model model = packed_in_each_run("%x");
  EXPECT_FALSE(passes::fold_packed_weights(model, {}));
  EXPECT_EQ(count(model, "quantized::linear_prepack"), 1U);
}

/// x plus what is rounded of `constant`.
ir::Model rounded(const std::string& constant) {
  ir::Model model =
      model_of_graph("%x : Tensor, %w : Tensor", "  %q : Tensor = aten::quantize_per_tensor(" + constant +
                                                     R"(, %scale, %zero, %quint8)
  %d : Tensor = aten::dequantize(%q)
  %y : Tensor = aten::add(%x, %d, %one)
  return (%y)
)");
  testing::put_attribute(model, "w", torch::rand({4}));
  return model;
}

TEST(RoundConstants, ThePassRoundsAParameter) {
  ir::Model model = rounded("%w");
  EXPECT_TRUE(passes::round_constants(model, {}));
  EXPECT_EQ(count(model, "aten::quantize_per_tensor") + count(model, "aten::dequantize"), 0U);
}

TEST(RoundConstants, ThePassLeavesAnInput) {
  ir::Model model = rounded("%x");
  EXPECT_FALSE(passes::round_constants(model, {}));
  EXPECT_EQ(count(model, "aten::dequantize"), 1U);
}

TEST(RoundConstants, ThePassRoundsTheWeightOfALayerWithoutAKernel) {
  ir::Model model = model_of_graph("%x : Tensor", "  %y : Tensor = aten::neg(%x)\n  return (%y)\n");
  const ir::Weighted layer = testing::rounded_linear(8, 4);
  testing::put_call(model, "y", testing::linear_call(layer));
  EXPECT_TRUE(passes::round_constants(model, {}));
  const ir::Weighted& result = *ir::call_of(model, node_named(model, "y")).weighted;
  EXPECT_FALSE(result.weight_qparams.has_value());
  EXPECT_TRUE(at::equal(result.weight, kernels::quantized_weight(layer).dequantize()));
}

/// Two linear layers with packed params of their own, which differ in the bias, made of `weights`.
ir::Model two_packed(const passes::PassContext& context, const std::array<at::Tensor, 2>& weights) {
  ir::Model model = model_of_graph("%x : Tensor, %a : Tensor, %b : Tensor", R"(
  %y : Tensor = quantized::linear_dynamic(%x, %a, %no)
  %z : Tensor = quantized::linear_dynamic(%y, %b, %no)
  return (%z)
)");
  const kernels::EnginePacking engine(context.target);
  for (const std::size_t i : {0, 1}) {
    const std::string name = i == 0 ? "a" : "b";
    ir::Weighted layer = testing::rounded_linear(8, 8);
    layer.bias = layer.bias + static_cast<double>(i);
    const std::string prepack = "quantized::linear_prepack";
    testing::put_attribute(model, name, kernels::pack(prepack, layer, weights.at(i)));
    model.packed_weights[name] = {.prepack = prepack, .weighted = layer, .quantized = weights.at(i)};
  }
  return model;
}

passes::PassContext context_for_fbgemm() { return {.target = {.engine = "fbgemm"}}; }
at::Tensor quantized() { return kernels::quantized_weight(testing::rounded_linear(8, 8)); }

TEST(HoldWeightsOnce, PackedParamsOfOneWeightArePackedOfItAtLoad) {
  const at::Tensor weight = quantized();
  ir::Model model = two_packed(context_for_fbgemm(), {weight, weight});
  EXPECT_TRUE(passes::hold_weights_once(model, context_for_fbgemm()));
  for (const char* name : {"a_held", "b_held"})
    EXPECT_TRUE(model.attributes.attr(name).toModule().attr("weight").toTensor().is_alias_of(weight));
  EXPECT_FALSE(passes::hold_weights_once(model, context_for_fbgemm()));
}

TEST(HoldWeightsOnce, PackedParamsOfOtherWeightsStay) {
  ir::Model model = two_packed(context_for_fbgemm(), {quantized(), quantized()});
  EXPECT_FALSE(passes::hold_weights_once(model, context_for_fbgemm()));
}

/// x, rounded, read by `readers`.
ir::Model read_rounded(const std::string& readers) {
  return model_of_graph("%x : Tensor", R"(
  %q : Tensor = aten::quantize_per_tensor(%x, %scale, %zero, %quint8)
  %d : Tensor = aten::dequantize(%q)
)" + readers);
}

TEST(DropUnreadRoundings, WhatNoKernelReadsAsBytesIsNotRounded) {
  ir::Model model = read_rounded("  %y : Tensor = aten::cos(%d)\n  return (%y)\n");
  ir::NodeRecord& record = testing::quantized_record(model, "y");
  record.placement = Placement::Reference;
  record.decision.reason = "computed in float between dequantize and quantize: no engine has a kernel";
  EXPECT_TRUE(passes::drop_unread_roundings(model, {}));
  EXPECT_EQ(count(model, "aten::quantize_per_tensor") + count(model, "aten::dequantize"), 0U);
  EXPECT_EQ(model.records.front().placement, Placement::Float);
  EXPECT_EQ(model.records.front().decision.reason, "no engine has a kernel");
  EXPECT_FALSE(passes::drop_unread_roundings(model, {}));
}

TEST(DropUnreadRoundings, WhatAKernelReadsToo) {
  ir::Model model = read_rounded(
      "  %y : Tensor = aten::cos(%d)\n  %z : Tensor = quantized::hardswish(%q, %scale, %zero)\n"
      "  %e : Tensor = aten::dequantize(%z)\n  return (%y, %e)\n");
  EXPECT_FALSE(passes::drop_unread_roundings(model, {}));
  EXPECT_EQ(count(model, "aten::dequantize"), 2U);
}

TEST(DropUnreadRoundings, WhatTheCallerWantsAsInTheReferenceStays) {
  ir::Model model = read_rounded("  %y : Tensor = aten::cos(%d)\n  return (%y)\n");
  testing::quantized_record(model, "y").reason = ir::Reason::KeptReference;
  EXPECT_FALSE(passes::drop_unread_roundings(model, {}));
}

TEST(DropUnreadRoundings, AClampForWhichTheRangeStoodComesBack) {
  ir::Model model = read_rounded("  %y : Tensor = aten::cos(%d)\n  return (%y)\n");
  operators::set_cut_off(node_named(model, "q"), {.lowest = 0, .highest = 6});
  EXPECT_TRUE(passes::drop_unread_roundings(model, {}));
  EXPECT_EQ(count(model, "aten::clamp"), 1U);
}

}  // namespace pack_passes_test
}  // namespace tsq
