// Operators of a calibrated model that stay float after all.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include "passes/place/passes.h"
#include "support/before_pass.h"
#include "support/small_models.h"

namespace tsq {
namespace keep_float_test {

using testing::CalibratedModel;
using testing::call_node;
using testing::input_observer;

/// x → one → two, prepared.
CalibratedModel two_layers() {
  torch::jit::Module model = testing::user_module("Two");
  model.register_module("one", testing::conv2d(3, 3, 1));
  model.register_module("two", testing::conv2d(3, 3, 1));
  model.define("def forward(self, x):\n  return self.two.forward(self.one.forward(x))\n");
  return testing::calibrated_model(
      prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx}));
}

const ir::NodeRecord& record(const ir::Model& model, const std::string& path) {
  return *ir::record_of(model, call_node(model, path));
}

CalibratedModel kept(const std::string& path) {
  CalibratedModel result = two_layers();
  const std::string name = call_node(result.model, path)->output()->debugName();
  result.context.kept_float = {{name, "because"}};
  EXPECT_TRUE(passes::keep_float(result.model, result.context));
  return result;
}

TEST(KeepFloat, AFloatOperatorReadsFloatValuesWithoutAnObserver) {
  const CalibratedModel result = kept("one");
  EXPECT_EQ(call_node(result.model, "one")->input(0)->node()->kind(), c10::prim::Param);
  const ir::NodeRecord& one = record(result.model, "one");
  EXPECT_FALSE(one.lookup.qconfig);
  EXPECT_EQ(one.placement, ir::Placement::Float);
  EXPECT_EQ(one.reason, ir::Reason::LeftOut);
  EXPECT_FALSE(one.decision.quantized);
  EXPECT_EQ(one.decision.reason, "because");
  EXPECT_TRUE(record(result.model, "two").decision.quantized);
  EXPECT_NE(input_observer(call_node(result.model, "two")), nullptr);
}

TEST(KeepFloat, WhatComesOutOfAKernelStaysRounded) {
  const CalibratedModel result = kept("two");
  EXPECT_NE(input_observer(call_node(result.model, "two")), nullptr);
  EXPECT_TRUE(record(result.model, "one").lookup.qconfig);
}

TEST(KeepFloat, NamesOfNoOperatorChangeNoOperator) {
  CalibratedModel result = two_layers();
  result.context.kept_float = {{"elsewhere", "because"}};
  passes::keep_float(result.model, result.context);
  for (const char* path : {"one", "two"}) {
    EXPECT_TRUE(record(result.model, path).lookup.qconfig);
    EXPECT_NE(input_observer(call_node(result.model, path)), nullptr);
    EXPECT_TRUE(record(result.model, path).decision.quantized);
  }
}

TEST(KeepFloat, WithoutNamesNothingChanges) {
  CalibratedModel result = two_layers();
  EXPECT_FALSE(passes::keep_float(result.model, result.context));
}

}  // namespace keep_float_test
}  // namespace tsq
