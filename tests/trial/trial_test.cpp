// Running a candidate beside the model whose place it is to take.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/backends.h>
#include <tsq/error.h>
#include <tsq/trial.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/small_models.h"
#include "trial/referee.h"
#include "trial/value_shapes.h"

namespace tsq {
namespace trial_test {

using ::testing::HasSubstr;
using torch::jit::Module;

Module defined(const std::string& name, const std::string& body) {
  Module module = testing::user_module(name);
  module.define("def forward(self, x):\n" + body);
  module.eval();
  return module;
}

std::vector<Sample> samples(std::initializer_list<int64_t> lengths) {
  torch::manual_seed(0);
  std::vector<Sample> result;
  for (const int64_t length : lengths) result.push_back({torch::randn({length})});
  return result;
}

Trial tried(const Module& model, const Module& candidate, const std::vector<Sample>& data) {
  return try_model(model, candidate, backend_config("x86"), data);
}

TEST(Trial, ACandidateIsLoadedEvenWithoutSamples) {
  const Trial trial = tried(defined("A", "  return x\n"), defined("B", "  return x\n"), {});
  EXPECT_FALSE(trial.fault.has_value());
  EXPECT_EQ(trial.samples, 0U);
  EXPECT_GT(trial.bytes, 0U);
  EXPECT_FALSE(trial.sqnr_db.has_value());
}

TEST(Trial, SqnrIsThatOfAllSamplesTogether) {
  // Means of zero, and eight values.
  const std::vector<Sample> data{{torch::tensor({1.0, -1.0, 1.0, -1.0, 1.0, -1.0})},
                                 {torch::tensor({3.0, -3.0})}};
  const Trial trial = tried(defined("A", "  return x\n"), defined("B", "  return x * 1.1\n"), data);
  EXPECT_EQ(trial.samples, 2U);
  EXPECT_NEAR(trial.sqnr_db.value(), 20 + 10 * std::log10(8.0 / 7), 1e-3);
  EXPECT_NEAR(trial.sample_db.at(0), 10 * std::log10(8.0 / 7 * 24 / 8 * 6 / 0.06), 1e-3);
  EXPECT_NEAR(trial.sample_db.at(1), 20 + 10 * std::log10(8.0 / 7), 1e-3);
  EXPECT_EQ(trial.to_json().at("outputs").size(), 1U);
  EXPECT_EQ(trial.to_json().at("outputs")[0].at("name"), "output");
}

TEST(Trial, WhatThrowsIsAFaultOfTheCandidate) {
  const Trial trial = tried(defined("A", "  return x\n"),
                            defined("B", "  assert x.size(0) != 5, 'five'\n  return x\n"), samples({4, 5}));
  ASSERT_TRUE(trial.fault.has_value());
  EXPECT_EQ(trial.fault->kind, FaultKind::Throws);
  EXPECT_EQ(trial.fault->sample, 1U);
  EXPECT_THAT(trial.fault->text, HasSubstr("five"));
  EXPECT_FALSE(trial.sqnr_db.has_value());
}

TEST(Trial, WhatTheModelItselfRefusesIsAFaultOfTheSample) {
  const Module model = defined("A", "  return x.view([2, -1])\n");
  try {
    tried(model, model, samples({4, 5}));
    FAIL() << "a sample that the model refuses was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadData);
    EXPECT_THAT(error.what(), HasSubstr("sample 1"));
  }
}

TEST(Trial, ModelsThatDrawNumbersDrawTheSame) {
  const Module model = defined("A", "  return x + torch.rand_like(x)\n");
  torch::manual_seed(7);
  const double before = torch::rand({1}).item<double>();
  torch::manual_seed(7);
  const Trial trial = tried(model, defined("B", "  return x + torch.rand_like(x)\n"), samples({64}));
  EXPECT_TRUE(std::isinf(trial.sqnr_db.value()));
  torch::manual_seed(7);
  tried(model, model, {});
  EXPECT_EQ(torch::rand({1}).item<double>(), before) << "the trial moved the generator on";
}

TEST(Trial, ModelsThatWriteIntoTheirArgumentsSeeTheSameSample) {
  const Module model = defined("A", "  return x.mul_(2.)\n");
  const std::vector<Sample> data = samples({8});
  const at::Tensor before = data[0][0].toTensor().clone();
  EXPECT_TRUE(std::isinf(tried(model, model, data).sqnr_db.value()));
  EXPECT_TRUE(torch::equal(data[0][0].toTensor(), before));
}

Module running_mean(const std::string& name, const std::string& momentum) {
  Module model = testing::user_module(name);
  model.register_buffer("mean", torch::zeros({8}));
  model.define("def forward(self, x):\n  return self.mean.mul_(0.5).add_(x * " + momentum + ")\n");
  model.eval();
  return model;
}

TEST(Trial, StateThatIsReturnedCountsAsItWasReturned) {
  const Module model = running_mean("A", "0.5");
  EXPECT_TRUE(std::isinf(tried(model, model, samples({8, 8, 8})).sqnr_db.value()));
  const Trial trial = tried(model, running_mean("B", "0.505"), samples({8, 8, 8, 8, 8, 8, 8, 8}));
  EXPECT_NEAR(trial.sqnr_db.value(), 40, 2);
}

TEST(Trial, WholeNumbersHaveDecisionsAndNoSqnr) {
  const Trial trial = tried(defined("A", "  return torch.argmax(x, 0)\n"),
                            defined("B", "  return torch.argmax(x, 0)\n"), samples({8, 8}));
  EXPECT_FALSE(trial.sqnr_db.has_value());
  EXPECT_EQ(trial.worst_output(), nullptr);
  ASSERT_EQ(trial.outputs.size(), 1U);
  EXPECT_FALSE(trial.outputs[0].sqnr_db.has_value());
  EXPECT_EQ(trial.outputs[0].decisions.all.agreed, 2U);
}

TEST(Trial, LengthsAreFreeOnlyWhereValuesDecideThem) {
  const Module selects = defined("A", "  return x[x > 0.]\n");
  EXPECT_FALSE(tried(selects, defined("B", "  return x[x > 1.]\n"), samples({32})).fault.has_value());
  const Trial cut = tried(defined("C", "  return x\n"), defined("D", "  return x[1:]\n"), samples({32}));
  ASSERT_TRUE(cut.fault.has_value());
  EXPECT_EQ(cut.fault->kind, FaultKind::Shape);
}

TEST(ValueDependentShapes, SizesAreNoValues) {
  using detail::has_value_dependent_shapes;
  EXPECT_FALSE(has_value_dependent_shapes(defined("A", "  return x[:x.size(0) - 1]\n")));
  EXPECT_FALSE(has_value_dependent_shapes(defined("B", "  return torch.where(x > 0., x, -x)\n")));
  EXPECT_TRUE(has_value_dependent_shapes(defined("C", "  return torch.nonzero(x)\n")));
  EXPECT_TRUE(has_value_dependent_shapes(
      defined("D", "  while bool((x < 10.).all()):\n    x = torch.cat([x, x + 1.])\n  return x\n")));
}

TEST(Trial, TheExpectedSqnrIsStudentsPredictionForOneMoreSample) {
  Trial trial;
  EXPECT_FALSE(trial.expected_db().has_value());
  trial.sample_db = {30};
  EXPECT_FALSE(trial.expected_db().has_value());
  trial.sample_db = {29, 31};  // mean 30, deviation sqrt 2, one degree of freedom
  EXPECT_NEAR(trial.expected_db().value(), 30 - 6.314 * std::sqrt(2.0) * std::sqrt(1.5), 1e-3);
  // Samples that were calibrated on tell the spread, not the mean.
  trial.calibrated_db = {40, 40, 40, 40};
  EXPECT_NEAR(trial.expected_db().value(), 30 - 2.132 * std::sqrt(2.0 / 4) * std::sqrt(1.5), 1e-3);
  // But where they do worse, the model that the others were judged by is a better one.
  trial.calibrated_db = {25, 25, 25, 25};
  EXPECT_NEAR(trial.expected_db().value(), 25 - 2.132 * std::sqrt(2.0 / 4) * std::sqrt(1.5), 1e-3);
  // One that has most of the error does not leave the others above what all have together.
  trial.sqnr_db = 12;
  EXPECT_EQ(trial.expected_db(), 12);
  EXPECT_EQ(trial.assured_db(), 12);
}

/// A trial of sixteen samples with noise of so much of their power, and some of other lengths at the end.
Trial clear_trial(double noise, int64_t others, detail::TrialExtent extent) {
  std::vector<Sample> data = samples({64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64});
  for (const Sample& more : samples({32, 33})) {
    if (others-- > 0) data.push_back(more);
  }
  const Module noisy = defined("B", fmt::format("  return x + {} * torch.randn_like(x)\n", noise));
  return detail::Referee(defined("A", "  return x\n"), at::QEngine::FBGEMM, std::move(data), {}, extent)
      .judge(noisy);
}

TEST(Trial, EightSamplesDoWhereTheSideOf20DecibelsIsClear) {
  using detail::TrialExtent;
  EXPECT_EQ(clear_trial(0.01, 0, TrialExtent::UntilClear).samples, 8U) << "some 40 dB";
  EXPECT_EQ(clear_trial(1, 0, TrialExtent::UntilClear).samples, 8U) << "some 0 dB";
  EXPECT_EQ(clear_trial(0.1, 0, TrialExtent::UntilClear).samples, 16U) << "some 20 dB";
  EXPECT_EQ(clear_trial(0.01, 0, TrialExtent::All).samples, 16U);
}

TEST(Trial, ShapesThatAreNewAreRunInAnyCase) {
  EXPECT_EQ(clear_trial(0.01, 2, detail::TrialExtent::UntilClear).samples, 10U);
}

TEST(Latency, SlowerMeansThatTheWholeIntervalLiesUnder095) {
  LatencyComparison found{.ratio = 0.9, .ratio_low = 0.85, .ratio_high = 0.94};
  EXPECT_TRUE(found.is_slower());
  found.ratio_high = 0.96;
  EXPECT_FALSE(found.is_slower());
}

TEST(Latency, HardlyFasterMeansThatTheIntervalIsNotAbove105) {
  LatencyComparison found{.ratio = 1.1, .ratio_low = 1.04, .ratio_high = 1.2};
  EXPECT_TRUE(found.is_hardly_faster());
  found.ratio_low = 1.06;
  EXPECT_FALSE(found.is_hardly_faster());
  found = {.ratio = 1, .ratio_low = 0, .ratio_high = std::numeric_limits<double>::infinity()};
  EXPECT_FALSE(found.is_hardly_faster()) << "without an interval nothing is known";
}

TEST(Latency, SixRoundsOfASlowModelCarryTheIntervalOfTheirRatios) {
  const Module slow = defined("Slow", "  for i in range(20):\n    x = x @ x * 0.01\n  return x\n");
  const Module fast = defined("Fast", "  return x\n");
  const LatencyComparison found = compare_latency(slow, fast, backend_config("fbgemm"),
                                                  {torch::ones({64, 64})}, {.seconds = 0, .longest = 1e9});
  EXPECT_EQ(found.rounds, 6U);
  EXPECT_TRUE(found.has_interval());
  EXPECT_LT(found.ratio_low, found.ratio);
  EXPECT_GT(found.ratio_high, found.ratio);
}

TEST(Latency, TheTimesAreThoseThatTheRatioIsComputedFrom) {
  const Module model = defined("Timed", "  return x * 2.\n");
  const LatencyComparison found =
      compare_latency(model, model, backend_config("fbgemm"), {torch::ones({2})}, {.seconds = 0});
  EXPECT_EQ(found.ratio, found.float_seconds / found.int8_seconds);
}

TEST(Latency, FewerThanSixRoundsCarryNoIntervalAndSayNoRatio) {
  const Module model = defined("Timed", "  return x * 2.\n");
  const BackendConfig backend = backend_config("fbgemm");
  const LatencyComparison cut =
      compare_latency(model, model, backend, {torch::ones({2})}, {.seconds = 0, .longest = 0});
  EXPECT_LT(cut.rounds, 6U);
  EXPECT_FALSE(cut.has_interval());
  EXPECT_EQ(cut.ratio_low, 0);
  EXPECT_TRUE(cut.to_json().at("ratio").is_null());
  EXPECT_TRUE(std::isinf(cut.ratio_high));
  EXPECT_TRUE(cut.to_json().at("ratio_interval").at(1).is_null());
  const LatencyComparison whole = compare_latency(model, model, backend, {torch::ones({2})}, {.seconds = 0});
  EXPECT_GE(whole.rounds, 11U);
  EXPECT_LE(whole.ratio_low, whole.ratio_high);
  EXPECT_TRUE(std::isfinite(whole.ratio_high));
}

}  // namespace trial_test
}  // namespace tsq
