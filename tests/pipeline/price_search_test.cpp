// Which price of a decibel reaches a goal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <string>

#include "support/bad_layer.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace price_search_test {

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
  const Prepared prepared = testing::calibrated_with_bad_layer();
  const AccuracyGoal goal = sqnr_goal(prepared, testing::images_for_bad_layer(), 25);
  ASSERT_LT(int8_score(prepared, goal), 25);
  const GoalSearch found = reach_goal(prepared, backend, goal, testing::images_for_bad_layer());
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
  const Prepared prepared = testing::calibrated_with_bad_layer();
  for (const double db : {15.0, 25.0, 35.0}) {
    const AccuracyGoal goal = sqnr_goal(prepared, testing::images_for_bad_layer(), db);
    const GoalSearch found =
        reach_goal(prepared, backend_config("x86"), goal, testing::images_for_bad_layer());
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
  const Prepared prepared = testing::calibrated_with_bad_layer();
  const AccuracyGoal goal = sqnr_goal(prepared, testing::images_for_bad_layer(), 25);
  std::vector<PlanPrediction> plans;
  GoalOptions options;
  options.confirm_plan = [&](const Plan& plan) {
    plans.push_back(*plan.prediction);
    return plans.size() == 1 ? 20.0 : 26.0;
  };
  const GoalSearch found =
      reach_goal(prepared, backend_config("x86"), goal, testing::images_for_bad_layer(), options);
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_LT(plans[1].noise, plans[0].noise);
  EXPECT_EQ(found.score, 26);
}

TEST(PriceSearch, PricesDecideNothingInRecipeFx) {
  const Prepared prepared = testing::calibrated_with_bad_layer({.recipe = Recipe::Fx});
  const GoalSearch found =
      reach_goal(prepared, backend_config("x86"), sqnr_goal(prepared, testing::images_for_bad_layer(), 25),
                 testing::images_for_bad_layer());
  ASSERT_TRUE(found.reached);
  EXPECT_FALSE(found.decibel_price);
}

TEST(PriceSearch, AReferenceFileRemembersWhatStaysFloat) {
  const BackendConfig backend = backend_config("x86");
  const Prepared prepared = testing::calibrated_with_bad_layer();
  const AccuracyGoal goal = sqnr_goal(prepared, testing::images_for_bad_layer(), 25);
  const GoalSearch found = reach_goal(prepared, backend, goal, testing::images_for_bad_layer());
  const testing::TemporaryFolder folder;
  found.reference->save(folder.file("reference.pt"));
  const Reference loaded = Reference::load(folder.file("reference.pt"));
  EXPECT_EQ(goal.score(lower(loaded, backend)), found.score);
  EXPECT_TRUE(is_float(loaded.plan(), "bad"));
}

}  // namespace price_search_test
}  // namespace tsq
