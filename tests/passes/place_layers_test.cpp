// The passes of the room place that recipe best adds, on layers: which compute in float after all, and by
// which kernel the others do.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include "ir/value_numbers.h"
#include "passes/place/passes.h"
#include "support/before_pass.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"

namespace tsq {
namespace place_layers_test {

using ir::Placement;
using ir::Reason;
using testing::CalibratedModel;
using testing::call_node;
using testing::input_observer;
using testing::output_observer;
using torch::jit::Module;

/// Layers by their names; `body` computes y from them and x.
Module network(const std::vector<std::pair<std::string, Module>>& layers, const std::string& body) {
  Module model = testing::user_module("Network");
  for (const auto& [name, layer] : layers) model.register_module(name, layer);
  model.define("def forward(self, x):\n" + body + "  return y\n");
  return model;
}

const ir::NodeRecord& record(const CalibratedModel& result, const std::string& path) {
  return *ir::record_of(result.model, call_node(result.model, path));
}

/// x → one → two → y, one of which met NaN.
CalibratedModel with_nan(const std::string& last) {
  torch::manual_seed(2);
  const Module model = network({{"one", testing::linear(8, 8)}, {"two", testing::linear(8, 8)}},
                               "  y = self.two.forward(self.one.forward(x))\n  y = " + last + "\n");
  CalibratedModel result = testing::before_pass(model, torch::randn({12, 8}), "x86", "leave_non_finite");
  ir::observer_of(result.model, input_observer(call_node(result.model, "two")))
      .module->setattr("tensors_not_finite", int64_t{1});
  return result;
}

TEST(LeaveNonFinite, WhatHandsOnNaNToAnOperatorThatLooksForItIsFloat) {
  for (const char* last : {"torch.masked_fill(y, torch.isnan(y), 0.0)", "torch.nan_to_num(y * 2.0)",
                           "torch.where(y != y, x, y)"}) {
    CalibratedModel result = with_nan(last);
    EXPECT_TRUE(passes::leave_non_finite(result.model, result.context)) << last;
    EXPECT_EQ(record(result, "two").reason, Reason::NonFinite) << last;
    EXPECT_FALSE(record(result, "two").observed) << last;
  }
}

TEST(LeaveNonFinite, WhereNobodyLooksForItNothingChanges) {
  for (const char* last : {"torch.masked_fill(y, x > 0, 0.0)", "torch.where(y != x, x, y)"}) {
    CalibratedModel result = with_nan(last);
    EXPECT_FALSE(passes::leave_non_finite(result.model, result.context)) << last;
    EXPECT_TRUE(record(result, "two").observed) << last;
  }
}

/// x → one → two.
CalibratedModel two_linears(const std::string& body, const char* pass) {
  torch::manual_seed(2);
  const Module model = network({{"one", testing::linear(8, 8)}, {"two", testing::linear(8, 8)}}, body);
  return testing::before_pass(model, torch::randn({12, 8}), "x86", pass);
}

constexpr const char* kBoth = "  y = self.two.forward(self.one.forward(x))\n";

TEST(KeepExactWeights, ALayerThatReadsFloatValuesIsFloat) {
  CalibratedModel result = two_linears(kBoth, "keep_exact_weights");
  ir::Node* one = call_node(result.model, "one");
  one->replaceInput(0, input_observer(one)->input(0));
  EXPECT_TRUE(passes::keep_exact_weights(result.model, result.context));
  EXPECT_EQ(record(result, "one").placement, Placement::Float);
  EXPECT_EQ(record(result, "one").reason, Reason::ReadsFloat);
  EXPECT_FALSE(record(result, "one").decision.quantized);
  EXPECT_EQ(record(result, "two").placement, Placement::Int8);
}

TEST(KeepExactWeights, ALayerThatReadsRoundedValuesIsNot) {
  CalibratedModel result = two_linears(kBoth, "keep_exact_weights");
  EXPECT_FALSE(passes::keep_exact_weights(result.model, result.context));
  EXPECT_EQ(record(result, "one").placement, Placement::Int8);
}

/// A convolution of 4 channels, 3x3 with padding 1, after `padding`.
CalibratedModel padded(const std::string& padding, const std::string& value = "0.0") {
  torch::manual_seed(4);
  const Module model =
      network({{"conv", testing::conv2d(3, 4, 3)}},
              "  y = self.conv.forward(torch.constant_pad_nd(x, " + padding + ", " + value + "))\n");
  return testing::before_pass(model, torch::randn({1, 3, 8, 8}), "x86", "place_padding");
}

TEST(PlacePadding, PaddingThatIsTheSameOnBothSidesIsAdded) {
  CalibratedModel result = padded("[1, 1, 1, 1]");
  EXPECT_TRUE(passes::place_padding(result.model, result.context));
  const auto& fold = testing::layer(result.model, "conv").fold;
  ASSERT_TRUE(fold);
  EXPECT_EQ(fold->padding, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(fold->kernel, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(fold->offset, (std::vector<int64_t>{0, 0}));
  const ir::Node* pad = testing::node_of_kind(result.model, "aten::constant_pad_nd");
  EXPECT_EQ(ir::decision_of(result.model, pad)->kernel, "padding of the convolution after it");
}

TEST(PlacePadding, OtherPaddingMakesTheKernelGrow) {
  CalibratedModel result = padded("[0, 1, 0, 1]");
  EXPECT_TRUE(passes::place_padding(result.model, result.context));
  const auto& fold = testing::layer(result.model, "conv").fold;
  ASSERT_TRUE(fold);
  EXPECT_EQ(fold->before, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(fold->after, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(fold->padding, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(fold->kernel, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(fold->offset, (std::vector<int64_t>{1, 1}));
  EXPECT_FALSE(fold->may_have_too_many_outputs);
}

TEST(PlacePadding, AnythingButZerosIsNotTheConvolutions) {
  CalibratedModel result = padded("[1, 1, 1, 1]", "1.0");
  EXPECT_FALSE(passes::place_padding(result.model, result.context));
  EXPECT_FALSE(testing::layer(result.model, "conv").fold);
}

/// x → first → a transposed convolution → last, on a processor whose oneDNN is at fault.
CalibratedModel with_transposed(int64_t channels_out) {
  torch::manual_seed(5);
  const Module model = network({{"first", testing::conv2d(3, 8, 1)},
                                {"up", testing::conv_transpose2d(8, channels_out, 3)},
                                {"last", testing::conv2d(channels_out, 4, 1)}},
                               "  y = self.last.forward(self.up.forward(self.first.forward(x)))\n");
  CalibratedModel result =
      testing::before_pass(model, torch::randn({1, 3, 9, 9}), "onednn", "leave_faulty_layers");
  result.context.target.faults.onednn_transposed_channels = true;
  return result;
}

TEST(LeaveFaultyLayers, ALayerWhoseKernelReturnsWrongResultsIsFloat) {
  CalibratedModel result = with_transposed(5);
  EXPECT_TRUE(passes::leave_faulty_layers(result.model, result.context));
  EXPECT_EQ(record(result, "up").placement, Placement::Float);
  EXPECT_EQ(record(result, "up").reason, Reason::KernelFault);
  EXPECT_NE(record(result, "up").decision.remedy, "");
  EXPECT_EQ(record(result, "first").placement, Placement::Int8);
  EXPECT_EQ(record(result, "last").placement, Placement::Int8);
  EXPECT_FALSE(passes::leave_faulty_layers(result.model, result.context));
}

TEST(LeaveFaultyLayers, ALayerWhoseKernelIsRightIsNot) {
  CalibratedModel result = with_transposed(8);
  EXPECT_FALSE(passes::leave_faulty_layers(result.model, result.context));
  EXPECT_EQ(record(result, "up").placement, Placement::Int8);
}

/// An LSTM of so many layers, in an operator with weights of the model's own.
CalibratedModel recurrent(int64_t layers, LoweringTarget target = LoweringTarget::Stock) {
  torch::manual_seed(6);
  constexpr int64_t kHidden = 5;
  Module model = testing::user_module("Recurrent");
  std::string weights;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::vector<std::vector<int64_t>> shapes{
        {4 * kHidden, layer == 0 ? 6 : kHidden}, {4 * kHidden, kHidden}, {4 * kHidden}, {4 * kHidden}};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const std::string name = "p" + std::to_string(layer) + "_" + std::to_string(i);
      model.register_parameter(name, torch::randn(shapes[i]), false);
      weights += (weights.empty() ? "self." : ", self.") + name;
    }
  }
  model.define("def forward(self, x, h):\n  return torch.lstm(x, [h, h], [" + weights + "], True, " +
               std::to_string(layers) + ", 0.0, False, False, False)[0]\n");
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend_config("x86"),
                              {.target = target, .machine = testing::slow_in_float()});
  calibrate(prepared, std::vector<Sample>{{torch::randn({7, 2, 6}), torch::zeros({layers, 2, kHidden})}});
  return testing::before_pass(prepared, "read_recurrent_inputs");
}

const ir::ModuleCall& recurrent_call(const CalibratedModel& result) {
  return ir::call_of(result.model, testing::node_of_kind(result.model, "prim::tsq_module"));
}

TEST(ReadRecurrentInputs, TheFirstOfSeveralLayersKeepsItsFloatWeights) {
  CalibratedModel result = recurrent(2);
  EXPECT_TRUE(passes::read_recurrent_inputs(result.model, result.context));
  EXPECT_EQ(recurrent_call(result).float_recurrent_weights, 2U);
}

TEST(ReadRecurrentInputs, ASingleLayerIsRounded) {
  CalibratedModel result = recurrent(1);
  EXPECT_FALSE(passes::read_recurrent_inputs(result.model, result.context));
  EXPECT_EQ(recurrent_call(result).float_recurrent_weights, 0U);
}

bool reads_observer(const CalibratedModel& result) {
  return ir::is_observer(testing::node_of_kind(result.model, "prim::tsq_module")->input(0)->node());
}

TEST(ReadRecurrentInputs, ProgramsReadThemUnrounded) {
  CalibratedModel result = recurrent(1, LoweringTarget::Fused);
  EXPECT_TRUE(reads_observer(result));
  EXPECT_TRUE(passes::read_recurrent_inputs(result.model, result.context));
  EXPECT_FALSE(reads_observer(result));
  CalibratedModel stock = recurrent(1);
  passes::read_recurrent_inputs(stock.model, stock.context);
  EXPECT_TRUE(reads_observer(stock));
}

}  // namespace place_layers_test
}  // namespace tsq
