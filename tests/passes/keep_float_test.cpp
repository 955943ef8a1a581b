// Operators of a calibrated model that stay float after all.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include "ir/analysis.h"
#include "passes/passes.h"
#include "pipeline/stage.h"
#include "support/small_models.h"

namespace tsq {
namespace {

/// x → one → two, prepared.
Prepared two_layers() {
  torch::jit::Module model = testing::user_module("Two");
  model.register_module("one", testing::conv2d(3, 3, 1));
  model.register_module("two", testing::conv2d(3, 3, 1));
  model.define("def forward(self, x):\n  return self.two.forward(self.one.forward(x))\n");
  return prepare(model, default_qconfig_mapping("x86"), backend_config("x86"));
}

ir::Node* call_at(ir::Model& gm, const std::string& path) {
  for (ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    if (ir::is_module_call(node) && ir::call_of(gm, node).path == path) return node;
  }
  return nullptr;
}

struct Kept {
  ir::Model gm;
  Report report;
};

Kept kept(const std::string& path) {
  const Prepared prepared = two_layers();
  Kept result{.gm = prepared.stage()->gm.copy(), .report = prepared.report()};
  const std::string name = call_at(result.gm, path)->output()->debugName();
  passes::keep_float(result.gm, {{name, "because"}}, result.report);
  return result;
}

TEST(KeepFloat, AFloatOperatorReadsFloatValuesWithoutAnObserver) {
  Kept result = kept("one");
  const ir::Node* one = call_at(result.gm, "one");
  EXPECT_EQ(one->input(0)->node()->kind(), c10::prim::Param);
  EXPECT_FALSE(ir::state_of(result.gm, one)->qconfig);
  EXPECT_FALSE(result.report.decisions[0].quantized);
  EXPECT_EQ(result.report.decisions[0].reason, "because");
  EXPECT_TRUE(result.report.decisions[1].quantized);
  EXPECT_TRUE(ir::is_observer(call_at(result.gm, "two")->input(0)->node()));
}

TEST(KeepFloat, WhatComesOutOfAKernelStaysRounded) {
  Kept result = kept("two");
  const ir::Node* two = call_at(result.gm, "two");
  EXPECT_TRUE(ir::is_observer(two->input(0)->node()));
  EXPECT_TRUE(ir::state_of(result.gm, call_at(result.gm, "one"))->qconfig);
}

TEST(KeepFloat, NamesOfNoOperatorChangeNoOperator) {
  const Prepared prepared = two_layers();
  ir::Model gm = prepared.stage()->gm.copy();
  Report report = prepared.report();
  passes::keep_float(gm, {{"elsewhere", "because"}}, report);
  for (const char* path : {"one", "two"}) {
    EXPECT_TRUE(ir::state_of(gm, call_at(gm, path))->qconfig);
    EXPECT_TRUE(ir::is_observer(call_at(gm, path)->input(0)->node()));
  }
  EXPECT_TRUE(report.decisions[0].quantized);
}

}  // namespace
}  // namespace tsq
