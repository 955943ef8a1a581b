// What is found, scaled and kept between placing and rounding.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <atomic>

#include "ir/analysis.h"
#include "observers/observer_module.h"
#include "passes/numerics/passes.h"
#include "support/calibrated_model.h"
#include "support/small_models.h"
#include "torchscript/emit.h"

namespace tsq {
namespace numerics_test {

using torch::jit::Module;

/// Its columns reach from 0.1 to 10.
at::Tensor rows() {
  torch::manual_seed(61);
  return torch::randn({32, 8}) * torch::logspace(-1, 1, 8);
}

Module two_linears() {
  torch::manual_seed(62);
  Module model = testing::user_module("TwoLinears");
  model.register_module("first", testing::linear(8, 6));
  model.register_module("second", testing::linear(6, 4));
  model.define("def forward(self, x):\n  return self.second.forward(torch.relu(self.first.forward(x)))\n");
  return model;
}

testing::CalibratedModel calibrated(const Module& model, const EqualizationMapping& equalization = {}) {
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend_config("x86"),
                              {.equalization = equalization, .recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{rows()}});
  return testing::calibrated_model(prepared);
}

std::size_t results(const ir::Model& model) {
  return static_cast<std::size_t>(std::ranges::count_if(
      model.observers, [](const ir::ObserverEntry& entry) { return entry.result.has_value(); }));
}

TEST(ConvertEqualization, MovesScalesIntoWeightsAndChangesNothingInFloat) {
  Module model = two_linears();
  auto [equalized, context] =
      calibrated(model, EqualizationMapping().set_global(default_equalization_qconfig()));
  const at::Tensor before = testing::layer(equalized, "second").weight;
  EXPECT_TRUE(passes::convert_equalization(equalized, context));
  EXPECT_FALSE(at::allclose(testing::layer(equalized, "second").weight, before));
  for (const ir::Node* node : ir::nodes_in_order(*equalized.graph)) {
    EXPECT_FALSE(ir::is_observer(node) &&
                 ir::observer_of(equalized, node).spec.observer == "_InputEqualizationObserver");
  }
  Module module = torchscript::emit(equalized);
  EXPECT_TRUE(
      at::allclose(module.forward({rows()}).toTensor(), model.forward({rows()}).toTensor(), 1e-4, 1e-5));
}

TEST(ConvertEqualization, AModelThatIsNotEqualizedStays) {
  auto [model, context] = calibrated(two_linears());
  const at::Tensor before = testing::layer(model, "first").weight;
  EXPECT_FALSE(passes::convert_equalization(model, context));
  EXPECT_TRUE(testing::layer(model, "first").weight.is_same(before));
}

TEST(FindQParams, AsksEachObserverThatIsInUseOnce) {
  auto [model, context] = calibrated(two_linears());
  model.observers.push_back(model.observers.front());  // that no node names
  std::atomic<std::size_t> parts{0};
  context.on_part = [&](passes::Part, std::size_t) { ++parts; };
  EXPECT_TRUE(passes::find_qparams(model, context));
  EXPECT_EQ(results(model), parts);
  EXPECT_FALSE(model.observers.back().result);
  const ir::ObserverEntry& input = model.observers.front();
  ASSERT_TRUE(input.result && input.result->qparams);
  EXPECT_TRUE(input.result->saw_data);
  EXPECT_TRUE(at::equal(input.result->qparams->scale, calculate_qparams(*input.module).scale));
  EXPECT_FALSE(passes::find_qparams(model, context));
  EXPECT_EQ(results(model), parts);
}

TEST(FindQParams, WhatIsKnownIsNotAskedAgain) {
  auto [model, context] = calibrated(two_linears());
  model.observers.front().result = ir::ObserverResult{.saw_other_dtype = true};
  EXPECT_TRUE(passes::find_qparams(model, context)) << "the others are asked";
  EXPECT_TRUE(model.observers.front().result->saw_other_dtype);
}

TEST(KeepBeforeRounding, KeepsTheGraphWithItsObservers) {
  auto [model, context] = calibrated(two_linears());
  const std::vector<Sample> samples{{rows()}};
  context.samples = samples;
  EXPECT_TRUE(passes::keep_before_rounding(model, context));
  ASSERT_NE(model.before_rounding, nullptr);
  EXPECT_NE(model.before_rounding->graph, model.graph);
  EXPECT_EQ(testing::count(*model.before_rounding, "prim::tsq_observer"),
            testing::count(model, "prim::tsq_observer"));
}

TEST(KeepBeforeRounding, KeepsNothingWhereNothingWillBeMeasured) {
  auto [model, context] = calibrated(two_linears());
  EXPECT_FALSE(passes::keep_before_rounding(model, context)) << "no samples";
  const std::vector<Sample> samples{{rows()}};
  context.samples = samples;
  model.mean_errors.emplace("known", torch::zeros({6}));
  EXPECT_FALSE(passes::keep_before_rounding(model, context)) << "known errors";
  model.mean_errors.clear();
  model.calls.front().standalone.emplace();
  EXPECT_FALSE(passes::keep_before_rounding(model, context)) << "a standalone module";
  EXPECT_EQ(model.before_rounding, nullptr);
}

}  // namespace numerics_test
}  // namespace tsq
