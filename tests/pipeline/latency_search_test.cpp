// The most accurate model within a time, and what lies between it and the fastest. Nothing here looks at a
// clock.

#include "trial/latency_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/bad_layer.h"
#include "trial/elsewhere.h"

namespace tsq {
namespace latency_search_test {

using detail::LatencyLimit;

/// In float, all four convolutions.
constexpr double kFloatSeconds = 5;

/// A model takes a second, and one more for each convolution in float.
LatencyComparison timed(const torch::jit::Module& model) {
  double seconds = 1;
  for (const auto* node : model.get_method("forward").graph()->nodes()) {
    if (node->kind() == c10::Symbol::fromQualString("aten::conv2d")) seconds += 1;
  }
  const double ratio = kFloatSeconds / seconds;
  return {.float_seconds = kFloatSeconds,
          .int8_seconds = seconds,
          .ratio = ratio,
          .ratio_low = ratio,
          .ratio_high = ratio,
          .rounds = 20};
}

GoalSearch within(const LatencyLimit& limit, const Prepared& prepared, const GoalOptions& options = {}) {
  return detail::reach_latency(prepared, backend_config("x86"), limit, timed, options);
}

double share_of(const GoalSearch& search) {
  return 1 / timed(lower(*search.reference, backend_config("x86")).module()).ratio;
}

TEST(LatencySearch, TheModelIsWithinTheTime) {
  const Prepared prepared = testing::calibrated_with_bad_layer();
  for (const double share : {0.3, 0.5, 0.7, 1.1}) {
    const GoalSearch found = within({.at_most = share, .is_share = true}, prepared);
    ASSERT_TRUE(found.reached) << share;
    EXPECT_TRUE(found.lower_is_better);
    EXPECT_LE(found.score, share);
    EXPECT_DOUBLE_EQ(share_of(found), found.score);
    EXPECT_LE(found.trials.size(), 6U);
  }
}

TEST(LatencySearch, MoreTimeMeansNoMoreNoise) {
  const Prepared prepared = testing::calibrated_with_bad_layer();
  double before = 1;
  for (const double share : {0.3, 0.5, 0.7, 0.9, 1.1}) {
    const double noise =
        within({.at_most = share, .is_share = true}, prepared).reference->plan().prediction->noise;
    EXPECT_LE(noise, before) << share;
    before = noise;
  }
}

TEST(LatencySearch, LimitsAreMillisecondsToo) {
  const GoalSearch found = within({.at_most = 2500}, testing::calibrated_with_bad_layer());
  ASSERT_TRUE(found.reached);
  EXPECT_LE(found.score, 2500);
  EXPECT_GE(found.score, 1000);
}

TEST(LatencySearch, AModelThatCannotBeSoFastIsNotFound) {
  const GoalSearch found = within({.at_most = 500}, testing::calibrated_with_bad_layer());
  EXPECT_FALSE(found.reached);
  EXPECT_EQ(found.trials.size(), 1U);
  EXPECT_EQ(found.score, found.trials.front().score);
}

TEST(LatencySearch, WhatIsSlowerWhenItIsMadeAnewIsNotTaken) {
  GoalOptions options;
  std::size_t asked = 0;
  options.confirm_plan = [&](const Plan&) { return ++asked == 1 ? 9.0 : 0.5; };
  const GoalSearch found =
      within({.at_most = 0.9, .is_share = true}, testing::calibrated_with_bad_layer(), options);
  ASSERT_TRUE(found.reached);
  EXPECT_EQ(asked, 2U);
  EXPECT_EQ(found.score, 0.5);
}

TEST(LatencySearch, RecipeFxHasNoPrices) {
  EXPECT_THROW(
      within({.at_most = 0.9, .is_share = true}, testing::calibrated_with_bad_layer({.recipe = Recipe::Fx})),
      Error);
}

TEST(Frontier, SqnrRisesWithTime) {
  const Prepared prepared = testing::calibrated_with_bad_layer();
  const auto points =
      frontier(prepared, backend_config("x86"), testing::images_for_bad_layer(), {.times = false});
  ASSERT_GE(points.size(), 3U);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_LE(points[i - 1].seconds(), points[i].seconds());
    EXPECT_LT(points[i - 1].trial.sqnr_db, points[i].trial.sqnr_db);
  }
  EXPECT_EQ(points.back().plan.prediction->noise, 0);
  EXPECT_EQ(points.back().int8_macs_share, 0);
}

TEST(Frontier, APlanOfItMakesItsModel) {
  const BackendConfig backend = backend_config("x86");
  const Prepared prepared = testing::calibrated_with_bad_layer();
  const auto samples = testing::images_for_bad_layer();
  const auto points = frontier(prepared, backend, samples, {.points = 4, .times = false});
  const nlohmann::json json = frontier_json(points, "network");
  for (const nlohmann::json& point : json["frontier"]) {
    const Plan plan = Plan::from_dict(point["plan"]);
    const Lowered lowered = convert(prepared, backend, {.plan = plan});
    const Trial trial = try_model(prepared.float_model(), lowered.module(), backend, samples);
    EXPECT_EQ(trial.to_json()["sqnr_db"], point["trial"]["sqnr_db"]);
  }
}

TEST(Frontier, NeedsSamples) {
  EXPECT_THROW(frontier(testing::calibrated_with_bad_layer(), backend_config("x86"), {}), Error);
}

TEST(Targets, TheFastestComesFirstAndNoneIsNoisier) {
  const Prepared prepared = testing::calibrated_with_bad_layer();
  const detail::Stage& stage = detail::stage_of(prepared);
  const std::vector<Target> targets = detail::targets_of(stage.backend);
  EXPECT_THAT(targets, ::testing::Contains(Target{.engine = "x86", .runtime = LoweringTarget::Fused}));
  const auto predicted = detail::predicted_targets(stage, targets);
  EXPECT_EQ(predicted.size(), targets.size());
  const auto own = std::ranges::find(predicted, detail::target_of(stage), &TargetPrediction::target);
  ASSERT_NE(own, predicted.end());
  const auto as_accurate = detail::as_accurate_targets(stage, targets);
  ASSERT_FALSE(as_accurate.empty());
  const auto seconds = [](const TargetPrediction& each) { return each.prediction.seconds; };
  EXPECT_TRUE(std::ranges::is_sorted(as_accurate, {}, seconds));
  for (const TargetPrediction& each : as_accurate)
    EXPECT_LE(each.prediction.noise, own->prediction.noise * 1.13);  // half a decibel
}

}  // namespace latency_search_test
}  // namespace tsq
