// Which price of a decibel reaches a goal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <string>

#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace {

using torch::jit::Module;

/// Convolutions with weights as large as trained ones. Rounding the weight of the second destroys it: one of
/// its input channels is always 0, and the weights for it leave no codes for the others.
Module network() {
  torch::manual_seed(5);
  const at::NoGradGuard no_gradients;
  Module model = testing::user_module("Network");
  model.register_module("first", testing::conv2d(3, 32, 3));
  model.register_module("bad", testing::conv2d(32, 32, 1));
  model.register_module("third", testing::conv2d(32, 32, 3));
  model.register_module("last", testing::conv2d(32, 8, 1));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.relu(self.bad.forward(torch.relu(self.first.forward(x))))\n"
      "  return self.last.forward(torch.relu(self.third.forward(y)))\n");
  testing::scale_as_trained(model);
  model.attr("first").toModule().attr("weight").toTensor().select(0, 0).zero_();
  model.attr("first").toModule().attr("bias").toTensor().select(0, 0).zero_();
  model.attr("bad").toModule().attr("weight").toTensor().select(1, 0).fill_(50);
  return model;
}

std::vector<Sample> samples() {
  torch::manual_seed(11);
  std::vector<Sample> result;
  for (int i = 0; i < 6; ++i) result.push_back({torch::randn({2, 3, 24, 24})});
  return result;
}

Prepared calibrated(const PrepareOptions& options = {.target_cpu = TargetCpu::Vnni}) {
  const bool is_best = options.recipe == Recipe::Best;
  Prepared prepared =
      prepare(network(), is_best ? best_qconfig_mapping("x86") : default_qconfig_mapping("x86"),
              backend_config("x86"), options);
  calibrate(prepared, samples());
  return prepared;
}

bool is_float(const Plan& plan, const std::string& layer) {
  return std::ranges::any_of(plan.operators, [&](const PlannedOperator& op) {
    return op.layer == layer && op.placement == Placement::Float;
  });
}

double int8_score(const Prepared& prepared, const AccuracyGoal& goal) {
  return goal.score(convert(prepared, backend_config("x86"), {.decibel_price = 0.0}));
}

TEST(PriceSearch, WhatCostsMostIsFloatAndTheGoalIsReached) {
  const BackendConfig backend = backend_config("x86");
  const Prepared prepared = calibrated();
  const AccuracyGoal goal = sqnr_goal(prepared, samples(), 25);
  ASSERT_LT(int8_score(prepared, goal), 25);
  const GoalSearch found = reach_goal(prepared, backend, goal, samples());
  ASSERT_TRUE(found.reached);
  ASSERT_TRUE(found.decibel_price);
  EXPECT_GE(found.score, 25);
  EXPECT_LE(found.trials.size(), 8U);
  EXPECT_EQ(goal.score(lower(*found.reference, backend)), found.score);
  const Plan plan = found.reference->plan();
  EXPECT_TRUE(is_float(plan, "bad"));
  EXPECT_FALSE(is_float(plan, "third"));
}

TEST(PriceSearch, NoLowerPriceThatWasTriedReachesTheGoal) {
  const Prepared prepared = calibrated();
  for (const double db : {15.0, 25.0, 35.0}) {
    const AccuracyGoal goal = sqnr_goal(prepared, samples(), db);
    const GoalSearch found = reach_goal(prepared, backend_config("x86"), goal, samples());
    ASSERT_TRUE(found.decibel_price) << db;
    const auto enough = std::ranges::count_if(found.trials, &GoalTrial::reached);
    EXPECT_GE(enough, 1) << db;
    EXPECT_EQ(std::ranges::min_element(
                  found.trials, {}, [](const GoalTrial& trial) { return trial.reached ? trial.score : 1e9; })
                  ->score,
              found.score)
        << db;
  }
}

TEST(PriceSearch, AModelThatIsMadeAnewHasToReachTheGoalToo) {
  const Prepared prepared = calibrated();
  const AccuracyGoal goal = sqnr_goal(prepared, samples(), 25);
  std::vector<PlanPrediction> plans;
  GoalOptions options;
  options.confirm_plan = [&](const Plan& plan) {
    plans.push_back(*plan.prediction);
    return plans.size() == 1 ? 20.0 : 26.0;
  };
  const GoalSearch found = reach_goal(prepared, backend_config("x86"), goal, samples(), options);
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_LT(plans[1].noise, plans[0].noise);
  EXPECT_EQ(found.score, 26);
}

TEST(PriceSearch, PricesDecideNothingInRecipeFx) {
  const Prepared prepared = calibrated({.recipe = Recipe::Fx});
  const GoalSearch found =
      reach_goal(prepared, backend_config("x86"), sqnr_goal(prepared, samples(), 25), samples());
  ASSERT_TRUE(found.reached);
  EXPECT_FALSE(found.decibel_price);
}

TEST(PriceSearch, AReferenceFileRemembersWhatStaysFloat) {
  const BackendConfig backend = backend_config("x86");
  const Prepared prepared = calibrated();
  const AccuracyGoal goal = sqnr_goal(prepared, samples(), 25);
  const GoalSearch found = reach_goal(prepared, backend, goal, samples());
  const testing::TemporaryFolder folder;
  found.reference->save(folder.file("reference.pt"));
  const Reference loaded = Reference::load(folder.file("reference.pt"));
  EXPECT_EQ(goal.score(lower(loaded, backend)), found.score);
  EXPECT_TRUE(is_float(loaded.plan(), "bad"));
}

}  // namespace
}  // namespace tsq
