// What one result has against another.
#include "trial/results.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <tsq/agreement.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "outputs/output_power.h"

namespace tsq::detail {
namespace results_test {

using at::IValue;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::optional<FaultKind> kind_of(const IValue& wanted, const IValue& got, bool free_shapes = false) {
  ResultErrors errors;
  const auto fault = compare_results(wanted, got, free_shapes, errors);
  return fault ? std::optional(fault->kind) : std::nullopt;
}

IValue dict_of(const char* key, const at::Tensor& value) {
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert(key, value);
  return dict;
}

/// What a trial says of pairs of a wanted result and another, one for each sample.
Trial summed(const std::vector<std::pair<IValue, IValue>>& samples, const std::vector<IValue>& beside = {}) {
  Trial trial;
  std::vector<ResultErrors> errors(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i)
    EXPECT_FALSE(compare_results(samples[i].first, samples[i].second, false, errors[i]).has_value());
  std::vector<ResultErrors> more(beside.size());
  for (std::size_t i = 0; i < beside.size(); ++i) (void)compare_results(beside[i], beside[i], false, more[i]);
  sum_up(errors, more, trial);
  return trial;
}

IValue tuple_of(const at::Tensor& first, const at::Tensor& second) {
  return c10::ivalue::Tuple::create({first, second});
}

TEST(Results, EqualResultsHaveNoFaultAndNoNoise) {
  const IValue result =
      c10::ivalue::Tuple::create({torch::ones({2, 3}), int64_t{4}, IValue(), std::string("s")});
  const Trial trial = summed({{result, result}});
  EXPECT_TRUE(std::isinf(trial.sqnr_db.value()));
  ASSERT_EQ(trial.outputs.size(), 1U);
  EXPECT_EQ(trial.outputs[0].name, "output[0]");
}

TEST(Results, EachOutputIsJudgedAndTheWorstIsTheResults) {
  const at::Tensor x = torch::tensor({1.0, -1.0, 1.0, -1.0});
  const Trial trial = summed({{tuple_of(x, 1000 * x), tuple_of(x + 0.1, 1000 * x)},
                              {tuple_of(-x, -1000 * x), tuple_of(-x + 0.1, -1000 * x)}});
  ASSERT_EQ(trial.outputs.size(), 2U);
  // Of two samples the variance has one degree of freedom: twice the mean square.
  EXPECT_NEAR(trial.outputs[0].sqnr_db.value(), 10 * std::log10(2 / 0.01), 1e-4);
  EXPECT_TRUE(std::isinf(trial.outputs[1].sqnr_db.value()));
  EXPECT_EQ(trial.sqnr_db, trial.outputs[0].sqnr_db);
  EXPECT_EQ(trial.worst_output(), trial.outputs.data());
}

TEST(Results, WhatAllSamplesHaveInCommonHidesNoError) {
  const at::Tensor offset = torch::tensor({1e5, -1e5}, at::kDouble);
  const at::Tensor one = offset + torch::tensor({1.0, 2.0}, at::kDouble);
  const at::Tensor other = offset + torch::tensor({-1.0, -2.0}, at::kDouble);
  const Trial trial = summed({{one, one + 1}, {other, other + 1}});
  // The variances are 2 and 8, each; the error, an offset, is 1.
  EXPECT_NEAR(trial.sqnr_db.value(), 10 * std::log10(5), 1e-6);
}

TEST(Results, OneSampleIsCentredByItsRowsElseByItsElements) {
  const at::Tensor rows = torch::tensor({{101.0, 7.0}, {99.0, 7.0}});
  EXPECT_NEAR(summed({{rows, rows + 1}}).sqnr_db.value(), 10 * std::log10(4.0 / 4), 1e-6);
  const at::Tensor row = torch::tensor({{101.0, 99.0}});
  EXPECT_NEAR(summed({{row, row + 1}}).sqnr_db.value(), 10 * std::log10(4.0 / 2), 1e-6);
}

TEST(Results, SamplesOfDifferentLengthsAreCentredByTheirRows) {
  const at::Tensor one = torch::tensor({{101.0, 7.0}, {99.0, 7.0}, {101.0, 7.0}});
  const at::Tensor other = torch::tensor({{99.0, 7.0}});
  // Four rows, of a variance of 4 / 3 and 0.
  EXPECT_NEAR(summed({{one, one + 1}, {other, other + 1}}).sqnr_db.value(), 10 * std::log10(16.0 / 3 / 8),
              1e-6);
}

TEST(Results, AConstantOutputHasItsPlainPower) {
  const at::Tensor x = torch::full({1, 4}, 10.0);
  EXPECT_NEAR(summed({{x, x + 1}, {x, x + 1}}).sqnr_db.value(), 20, 1e-6);
  EXPECT_NEAR(summed({{x, x + 1}}).sqnr_db.value(), 20, 1e-6);
  // The last bit of a float is no signal.
  EXPECT_NEAR(summed({{x, x + 1}, {x * (1 + 0x1p-23), x + 1}}).sqnr_db.value(), 20, 1e-3);
}

TEST(Results, ThePowerOfSamplesThatAreNotKeptIsThatOfAllTogether) {
  torch::manual_seed(1);
  const at::Tensor hole = torch::tensor({{1.0, std::numeric_limits<double>::infinity()}, {3.0, 5.0}});
  const std::vector<std::vector<at::Tensor>> outputs{
      {torch::randn({3, 4}) + 7, torch::randn({3, 4}), torch::randn({3, 4})},
      {torch::randn({3, 4}) + 7, torch::randn({1, 4})},
      {torch::randn({3, 4}), torch::randn({2, 5})},
      {torch::randn({6, 2}) + 5},
      {torch::randn({1, 9}) + 5},
      {torch::tensor(3.0), torch::tensor(4.0)},
      {torch::full({2, 2}, 9.0), torch::full({2, 2}, 9.0)},
      {hole, hole + 1, hole * 2},
      {torch::randn({4}, at::kComplexFloat), torch::randn({4}, at::kComplexFloat)}};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    OutputPower power;
    for (const at::Tensor& sample : outputs[i]) power.add(sample);
    const std::vector<double> each = output_powers(outputs[i]);
    const double all = std::accumulate(each.begin(), each.end(), 0.0);
    EXPECT_NEAR(power.power(), all, 1e-9 * all) << i;
  }
}

TEST(Results, FurtherResultsTellHowFarAnOutputVaries) {
  const at::Tensor x = torch::tensor({11.0});
  const Trial alone = summed({{x, x + 1}});
  EXPECT_NEAR(alone.sqnr_db.value(), 10 * std::log10(121), 1e-6);
  const Trial beside = summed({{x, x + 1}}, {torch::tensor({9.0})});
  EXPECT_NEAR(beside.sqnr_db.value(), 10 * std::log10(2), 1e-6);
  EXPECT_EQ(beside.sample_db.size(), 1U);
}

TEST(Results, ASampleThatIsNearlyZeroIsJudgedByTheMeanPower) {
  const at::Tensor loud = torch::tensor({3.0, -3.0, 3.0, -3.0});
  const at::Tensor quiet = 1e-4 * loud;
  const at::Tensor error = torch::full({4}, 0.01);
  const Trial trial = summed(
      {{loud, loud + error}, {-loud, -loud + error}, {quiet, quiet + error}, {-quiet, -quiet + error}});
  const double mean_power = 4.0 / 3 * (9 + 9) / 4;
  ASSERT_EQ(trial.sample_db.size(), 4U);
  EXPECT_NEAR(trial.sample_db[0], 10 * std::log10(4.0 / 3 * 9 / 1e-4), 1e-3);
  EXPECT_NEAR(trial.sample_db[2], 10 * std::log10(mean_power / 1e-4), 1e-3);
  EXPECT_GT(trial.expected_db().value(), 40);
}

TEST(Results, ComplexNumbersCountByTheirParts) {
  const at::Tensor wanted = torch::complex(torch::tensor({1.0, -1.0}), torch::tensor({1.0, -1.0}));
  const at::Tensor got = torch::complex(torch::tensor({1.1, -1.1}), torch::tensor({1.0, -1.0}));
  const Trial trial = summed({{wanted, got}});
  EXPECT_NEAR(trial.sqnr_db.value(), 10 * std::log10(8 / 0.02), 1e-4);
}

TEST(Results, EachKindOfDifferenceIsNamed) {
  const at::Tensor x = torch::ones({2, 3});
  EXPECT_EQ(kind_of(x, x.to(at::kDouble)), FaultKind::Type);
  EXPECT_EQ(kind_of(x, torch::ones({3, 2})), FaultKind::Shape);
  EXPECT_EQ(kind_of(x, int64_t{1}), FaultKind::Structure);
  EXPECT_EQ(kind_of(x, IValue()), FaultKind::Structure);
  EXPECT_EQ(kind_of(c10::ivalue::Tuple::create({x}), c10::ivalue::Tuple::create({x, x})),
            FaultKind::Structure);
  EXPECT_EQ(kind_of(c10::List<at::Tensor>({x}), c10::List<at::Tensor>({x, x})), FaultKind::Structure);
  EXPECT_EQ(kind_of(dict_of("a", x), dict_of("b", x)), FaultKind::Structure);
  EXPECT_EQ(kind_of(dict_of("a", x), dict_of("a", x.to(at::kHalf))), FaultKind::Type);
  EXPECT_EQ(kind_of(x, torch::full({2, 3}, kInfinity)), FaultKind::NotFinite);
  EXPECT_EQ(kind_of(x, torch::full({2, 3}, std::nanf(""))), FaultKind::NotFinite);
}

TEST(Results, WhatIsNotFiniteInFloatMayBeAnything) {
  const at::Tensor masked = torch::tensor({1.0F, -kInfinity, std::nanf("")});
  EXPECT_EQ(kind_of(masked, torch::tensor({1.0F, -kInfinity, 0.0F})), std::nullopt);
  EXPECT_EQ(kind_of(masked, torch::tensor({1.0F, 5.0F, 0.0F})), std::nullopt);
}

TEST(Results, LengthsThatDependOnValuesMayDifferRanksMayNot) {
  const at::Tensor boxes = torch::ones({3, 4});
  EXPECT_EQ(kind_of(boxes, torch::ones({2, 4}), true), std::nullopt);
  EXPECT_EQ(kind_of(boxes, torch::ones({4}), true), FaultKind::Shape);
  ResultErrors errors;
  EXPECT_FALSE(compare_results(boxes, torch::ones({2, 4}), true, errors).has_value());
  EXPECT_EQ(errors.different_shapes, 1U);
  EXPECT_TRUE(errors.outputs.empty());
}

}  // namespace results_test
}  // namespace tsq::detail
