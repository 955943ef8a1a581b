// Which queries, keys and values a fused program's attention reads as bytes.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <set>
#include <string>
#include <vector>

#include "ir/analysis.h"
#include "passes/place/passes.h"
#include "support/before_pass.h"
#include "support/calibrated_model.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"

namespace tsq {
namespace round_attention_test {

using testing::CalibratedModel;
using testing::node_of_kind;
using torch::jit::Module;

/// Layers query, key and value, or one for the three, and dense; `forward` says how they are used.
Module attention_layers(const std::string& forward) {
  torch::manual_seed(3);
  Module model = testing::user_module("Attention");
  for (const char* name : {"query", "key", "value", "dense"})
    model.register_module(name, testing::linear(16, 16));
  model.register_module("qkv", testing::linear(16, 48));
  // Scores of trained attention are of the size of one.
  for (const char* name : {"query", "key", "qkv"})
    model.attr(name).toModule().attr("weight").toTensor().detach().mul_(0.25);
  model.define("def heads(self, x):\n  return x.reshape([2, 6, 2, 8]).transpose(1, 2)\n");
  model.define("def forward(self, x):\n" + forward);
  model.eval();
  return model;
}

constexpr const char* kWrittenOut =
    "  q = self.heads(self.query.forward(x))\n"
    "  k = self.heads(self.key.forward(x))\n"
    "  v = self.heads(self.value.forward(x))\n"
    "  y = torch.matmul(torch.softmax(torch.matmul(q, k.transpose(2, 3)) / 2.8, -1), v)\n";
constexpr const char* kIntoLayer = "  return self.dense.forward(y.transpose(1, 2).reshape([2, 6, 16]))\n";

CalibratedModel before(const Module& model, std::string_view pass,
                       LoweringTarget target = LoweringTarget::Fused) {
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend_config("x86"),
                              {.target = target, .machine = testing::slow_in_float()});
  std::vector<Sample> samples;
  for (int i = 0; i < 3; ++i) samples.push_back({torch::randn({2, 6, 16})});
  calibrate(prepared, samples);
  return testing::before_pass(prepared, pass);
}

/// Of the first and the second product, which of their operands are observed.
std::vector<bool> observed_operands(const CalibratedModel& result) {
  std::vector<bool> found;
  for (const ir::Node* node : ir::nodes_in_order(*result.model.graph)) {
    if (node->kind() != c10::aten::matmul && node->kind() != c10::aten::scaled_dot_product_attention)
      continue;
    for (const ir::Value* operand : ir::operands(node)) {
      if (operand->type()->isSubtypeOf(*c10::TensorType::get()))
        found.push_back(ir::is_observer(operand->node()));
    }
  }
  return found;
}

CalibratedModel before(const std::string& attention, const std::string& after, std::string_view pass,
                       LoweringTarget target = LoweringTarget::Fused) {
  return before(attention_layers(attention + after), pass, target);
}

using Observed = std::vector<bool>;

TEST(RoundAttention, QueriesAndKeysOfLayersStayRoundedAndValuesDoNot) {
  const CalibratedModel result = before(kWrittenOut, kIntoLayer, "read_recurrent_inputs");
  EXPECT_EQ(observed_operands(result), (Observed{true, true, false, false}));
}

TEST(RoundAttention, OneOperatorIsAnAttentionToo) {
  CalibratedModel result = before(
      "  q = self.heads(self.query.forward(x))\n"
      "  k = self.heads(self.key.forward(x))\n"
      "  v = self.heads(self.value.forward(x))\n"
      "  y = torch.scaled_dot_product_attention(q, k, v, None, 0.0, False)\n",
      kIntoLayer, "keep_exact_weights");
  const Observed observed = observed_operands(result);
  ASSERT_GE(observed.size(), 3U);
  EXPECT_EQ(Observed(observed.begin(), observed.begin() + 3), (Observed{true, true, false}));
}

TEST(RoundAttention, QueriesWithoutInt8LayerLeaveKeysInFloat) {
  CalibratedModel result = before(
      "  q = self.heads(x)\n"
      "  k = self.heads(self.key.forward(x))\n"
      "  v = self.heads(self.value.forward(x))\n"
      "  y = torch.matmul(torch.softmax(torch.matmul(q, k.transpose(2, 3)), -1), v)\n",
      kIntoLayer, "keep_exact_weights");
  EXPECT_EQ(observed_operands(result), (Observed{false, false, false, false}));
}

TEST(RoundAttention, WhereScoresAreLargeTheyAreOfFloats) {
  const Module model = attention_layers(std::string(kWrittenOut).append(kIntoLayer));
  for (const char* layer : {"query", "key"})
    model.attr(layer).toModule().attr("weight").toTensor().detach().mul_(20);
  EXPECT_EQ(observed_operands(before(model, "keep_exact_weights")), (Observed{false, false, false, false}));
}

/// One channel of queries is twenty times as large as the others: of these, the codes of one scale keep
/// little.
TEST(RoundAttention, WhatHasCoarserCodesThanTheInputOfItsLayerStaysFloat) {
  const Module model = attention_layers(std::string(kWrittenOut).append(kIntoLayer));
  model.attr("query").toModule().attr("weight").toTensor().detach()[0].mul_(20);
  const CalibratedModel result = before(model, "keep_exact_weights");
  EXPECT_EQ(observed_operands(result), (Observed{false, false, false, false}));
}

TEST(RoundAttention, OtherTargetsRoundNothing) {
  const CalibratedModel result =
      before(kWrittenOut, kIntoLayer, "read_recurrent_inputs", LoweringTarget::Stock);
  EXPECT_EQ(observed_operands(result), (Observed{false, false, false, false}));
}

TEST(ObserveAttention, PartsOfOneLayerHaveRangesOfTheirOwn) {
  CalibratedModel result = before(
      "  q, k, v = self.qkv.forward(x).chunk(3, -1)\n"
      "  y = torch.matmul(torch.softmax(torch.matmul(self.heads(q), self.heads(k).transpose(2, 3)), -1), "
      "self.heads(v))\n",
      kIntoLayer, "round_attention");
  EXPECT_EQ(observed_operands(result), (Observed{true, true, false, true}));
  std::set<std::size_t> indexes;
  for (const ir::Node* node : ir::nodes_in_order(*result.model.graph)) {
    if (node->kind() != c10::aten::matmul) continue;
    for (const ir::Value* operand : node->inputs()) {
      if (ir::is_observer(operand->node())) indexes.insert(ir::observer_index(operand->node()));
    }
  }
  EXPECT_EQ(indexes.size(), 3U);
}

}  // namespace round_attention_test
}  // namespace tsq
