// One decision about all operators: the least time with the price of noise.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <random>

#include "passes/place/choice_problem.h"
#include "passes/place/passes.h"
#include "support/before_pass.h"
#include "support/best_model.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace choose_test {

using testing::CalibratedModel;
using ::testing::ContainsRegex;
using torch::jit::Module;

/// Convolutions with a residual, a gate, padding on one side and a linear layer.
Module network() {
  torch::manual_seed(4);
  const at::NoGradGuard no_gradients;
  Module model = testing::user_module("Network");
  model.register_module("first", testing::conv2d(3, 32, 3));
  model.register_module("second", testing::conv2d(32, 32, 1));
  model.register_module("third", testing::conv2d(32, 32, 3));
  model.register_module("last", testing::linear(32, 10));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.relu(self.first.forward(x))\n"
      "  z = torch.hardswish(self.second.forward(y)) + y\n"
      "  z = torch.relu(self.third.forward(torch.constant_pad_nd(z, [0, 1, 0, 1], 0.0)))\n"
      "  return self.last.forward(torch.flatten(torch.max_pool2d(z, [2, 2]).mean([2, 3], True), 1))\n");
  testing::scale_as_trained(model);
  return model;
}

std::vector<Sample> samples() {
  torch::manual_seed(21);
  std::vector<Sample> result;
  for (int i = 0; i < 6; ++i) result.push_back({torch::randn({1, 3, 24, 24})});
  return result;
}

Prepared calibrated(std::optional<double> decibel_price, LoweringTarget target = LoweringTarget::Stock) {
  PrepareOptions options{.target_cpu = TargetCpu::Vnni, .target = target, .decibel_price = decibel_price};
  Prepared prepared = prepare(network(), best_qconfig_mapping("x86"), backend_config("x86"), options);
  calibrate(prepared, samples());
  return prepared;
}

Plan plan_at(const Prepared& prepared, std::optional<double> decibel_price) {
  return convert_to_reference(prepared, backend_config("x86"), {.decibel_price = decibel_price}).plan();
}

std::size_t in_int8(const Plan& plan) {
  return static_cast<std::size_t>(std::ranges::count_if(plan.operators, [](const PlannedOperator& op) {
    return op.placement == Placement::Int8 || op.placement == Placement::Int8FloatOut;
  }));
}

/// What choose finds, with noise at random.
class ChoiceProblemTest : public ::testing::TestWithParam<LoweringTarget> {};

TEST_P(ChoiceProblemTest, TheOptimumIsNoWorseThanAnyOtherChoice) {
  CalibratedModel model = testing::before_pass(calibrated(0.005, GetParam()), "choose");
  const passes::ChoiceProblem problem(model.model, model.context);
  ASSERT_GE(problem.operators().size(), 5U);
  ASSERT_GE(problem.values().size(), 5U);
  std::mt19937 random(5);
  for (const double price : {0.0, 1e4, 1e8}) {
    const optimum::Problem at_price = problem.at(price);
    const optimum::Solution best = optimum::solve(at_price);
    EXPECT_TRUE(best.is_optimal());
    EXPECT_LT(best.cost, passes::Cost::impossible().nanoseconds);
    for (int i = 0; i < 2000; ++i) {
      std::vector<std::size_t> labels;
      for (const std::vector<double>& costs : at_price.costs) labels.push_back(random() % costs.size());
      EXPECT_GE(optimum::cost_of(at_price, labels), best.cost);
    }
  }
}

TEST_P(ChoiceProblemTest, TheCostOfLabelsIsThatOfTheProblemAndOfWhatHasNoChoice) {
  CalibratedModel model = testing::before_pass(calibrated(0.005, GetParam()), "choose");
  const passes::ChoiceProblem problem(model.model, model.context);
  const optimum::Solution one = optimum::solve(problem.at(1e6));
  const optimum::Solution other = optimum::solve(problem.at(0));
  const auto rest = [&](const optimum::Solution& solution, double price) {
    return problem.cost_of(solution.labels).at(price) - optimum::cost_of(problem.at(price), solution.labels);
  };
  EXPECT_NEAR(rest(one, 1e6), rest(other, 1e6), 1e-3);
  EXPECT_NEAR(rest(one, 0), rest(other, 0), 1e-3);
}

TEST_P(ChoiceProblemTest, ChangingOneOperatorCostsWhatItCostsAround) {
  CalibratedModel model = testing::before_pass(calibrated(0.005, GetParam()), "choose");
  const passes::ChoiceProblem problem(model.model, model.context);
  constexpr double kPrice = 1e6;
  const optimum::Solution best = optimum::solve(problem.at(kPrice));
  for (std::size_t op = 0; op < problem.operators().size(); ++op) {
    const auto around = [&](std::size_t label) {
      return problem.cost_around(op, label, best.labels, kPrice).at(kPrice);
    };
    for (std::size_t label = 0; label < passes::operator_label::kCount; ++label)
      EXPECT_GE(around(label), around(best.labels[op]) - 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ChoiceProblemTest,
                         ::testing::Values(LoweringTarget::Stock, LoweringTarget::Fused),
                         [](const auto& target) { return std::string(to_string(target.param)); });

TEST(Choose, LeavesNoisyOperatorsFloatAsFarAsTheirTimeAllows) {
  const Prepared prepared = calibrated(0.005);
  EXPECT_EQ(in_int8(plan_at(prepared, 1e6)), 0U);
  std::size_t more = in_int8(plan_at(prepared, 0.0));
  EXPECT_GE(more, 4U);
  for (const double price : {0.002, 0.02, 0.2, 2.0, 20.0}) {
    const std::size_t fewer = in_int8(plan_at(prepared, price));
    EXPECT_LE(fewer, more) << price;
    more = fewer;
  }
}

TEST(Choose, ThePriceOfConvertTakesThePlaceOfThatOfPrepare) {
  EXPECT_EQ(plan_at(calibrated(1e6), 0.005), plan_at(calibrated(0.005), std::nullopt));
}

TEST(Choose, AFileKnowsTheNoise) {
  const testing::TemporaryFolder folder;
  const Prepared prepared = calibrated(0.005);
  prepared.save(folder.file("prepared.pt"));
  const Prepared loaded = Prepared::load(folder.file("prepared.pt"));
  EXPECT_EQ(plan_at(loaded, std::nullopt), plan_at(prepared, std::nullopt));
  EXPECT_EQ(plan_at(loaded, 0.2), plan_at(prepared, 0.2));
}

TEST(Choose, TheReportHasThePrices) {
  const Plan plan = plan_at(calibrated(0.005), 1e6);
  const auto left = std::ranges::find(plan.operators, Reason::Costs, &PlannedOperator::reason);
  ASSERT_NE(left, plan.operators.end());
  EXPECT_THAT(left->detail,
              ContainsRegex("^float [0-9.e+]+ µs, no noise; int8 [0-9.e+]+ µs, noise of -[0-9]+ dB$"));
}

/// Layers of a few numbers, and of many.
Module small_and_large() {
  torch::manual_seed(5);
  Module model = testing::user_module("SmallAndLarge");
  model.register_module("small", testing::linear(8, 8));
  model.register_module("large", testing::linear(512, 512));
  model.define("def forward(self, x):\n  return self.large.forward(x), self.small.forward(x[:, :8])\n");
  testing::scale_as_trained(model);
  return model;
}

TEST(Choose, DynamicLayersAreInInt8AsFarAsTheirNoiseAllows) {
  const BackendConfig backend = backend_config("x86");
  Prepared prepared =
      prepare(small_and_large(), best_dynamic_qconfig_mapping(), backend, {.target_cpu = TargetCpu::Vnni});
  std::vector<Sample> data;
  for (int i = 0; i < 4; ++i) data.push_back({torch::randn({32, 512})});
  calibrate(prepared, data);
  const auto dynamic_layers = [&](double price) {
    const Lowered lowered = convert(prepared, backend, {.decibel_price = price});
    return testing::count(lowered.module(), "quantized::linear_dynamic");
  };
  EXPECT_EQ(dynamic_layers(0), 2U);
  EXPECT_EQ(dynamic_layers(1e6), 0U);
}

/// However much faster the kernel is that returns bytes.
TEST(Choose, TheLastLinearLayersReturnFloats) {
  for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
    const BackendConfig backend = backend_config(engine);
    Prepared prepared = prepare(small_and_large(), best_qconfig_mapping(engine), backend,
                                {.machine = testing::slow_in_float(), .decibel_price = 0});
    calibrate(prepared, std::vector<Sample>{{torch::randn({32, 512})}});
    const Plan plan = convert_to_reference(prepared, backend).plan();
    EXPECT_EQ(std::ranges::find(plan.operators, "large", &PlannedOperator::layer)->placement,
              Placement::Int8FloatOut)
        << engine;
  }
}

TEST(Choose, APlanIsCarriedOutAsItIs) {
  const Prepared prepared = calibrated(0.005);
  const Plan plan = plan_at(prepared, 0.02);
  const Lowered lowered = convert(prepared, backend_config("x86"), {.plan = plan});
  std::size_t quantized = 0;
  for (const Decision& decision : lowered.report().decisions) quantized += decision.quantized ? 1 : 0;
  EXPECT_EQ(quantized, in_int8(plan));
}

}  // namespace choose_test
}  // namespace tsq
