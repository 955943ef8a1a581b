// Operators around which nothing is quantized: not observed, float after calibration, and int8 where a plan
// says so.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/backends.h>
#include <tsq/error.h>
#include <tsq/plan.h>
#include <tsq/quantize.h>

#include <algorithm>

#include "ir/analysis.h"
#include "ir/value_numbers.h"
#include "pipeline/stage.h"
#include "support/before_pass.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"

namespace tsq {
namespace islands_test {

const std::vector<Sample>& samples() {
  static const std::vector<Sample> kSamples{{at::linspace(-1, 1, 4 * 12 * 12).view({1, 4, 12, 12})},
                                            {at::linspace(-3, 2, 4 * 12 * 12).view({1, 4, 12, 12})}};
  return kSamples;
}

/// A sum between erf, which no engine quantizes.
Prepared prepared() {
  torch::manual_seed(3);
  torch::jit::Module model = testing::user_module("Island");
  for (const char* name : {"a", "b"}) model.register_module(name, testing::conv2d(4, 4, 3));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.erf(self.a.forward(x))\n"
      "  return self.b.forward(torch.erf(y + y))\n");
  return prepare(model, default_qconfig_mapping("x86"), backend_config("x86"),
                 {.machine = testing::slow_in_float()});
}

Prepared calibrated() {
  Prepared result = prepared();
  calibrate(result, samples());
  return result;
}

PlannedOperator& sum_of(Plan& plan) {
  return *std::ranges::find_if(
      plan.operators, [](const PlannedOperator& each) { return each.op.find("add") != std::string::npos; });
}

Plan with_sum_in_int8(const Prepared& model) {
  Plan plan = convert_to_reference(model, backend_config("x86")).plan();
  PlannedOperator& sum = sum_of(plan);
  EXPECT_EQ(sum.placement, Placement::Float);
  EXPECT_EQ(sum.reason, Reason::Island);
  sum.placement = Placement::Int8;
  sum.reason = Reason::None;
  return plan;
}

TEST(Islands, CalibrationSeesTheirRanges) {
  const testing::CalibratedModel model = testing::before_pass(calibrated(), "leave_float_islands");
  const ir::Node* sum = testing::node_of_kind(model.model, "aten::add");
  const ir::ValueFacts* read = ir::facts_of(model.model, sum->input(0));
  const ir::ValueFacts* returned = ir::facts_of(model.model, sum->output());
  ASSERT_NE(read, nullptr);
  ASSERT_NE(returned, nullptr);
  ASSERT_TRUE(read->range.has_value());
  ASSERT_TRUE(returned->range.has_value());
  EXPECT_GE(read->range->lowest, -1);
  EXPECT_DOUBLE_EQ(returned->range->lowest, 2 * read->range->lowest);
  EXPECT_DOUBLE_EQ(returned->range->highest, 2 * read->range->highest);
  EXPECT_EQ(returned->is_finite, true);
}

TEST(Islands, APlanRoundsThemInTheRangesThatCalibrationSaw) {
  const Prepared model = calibrated();
  const Reference reference =
      convert_to_reference(model, backend_config("x86"), {.plan = with_sum_in_int8(model)});
  const auto sum = std::ranges::find_if(reference.report().decisions, [](const Decision& each) {
    return each.op.find("add") != std::string::npos;
  });
  ASSERT_NE(sum, reference.report().decisions.end());
  EXPECT_TRUE(sum->quantized);
  const Lowered lowered = lower(reference, backend_config("x86"));
  const auto graph = lowered.module().get_method("forward").graph();
  EXPECT_NE(graph->toString().find("quantized::add"), std::string::npos) << *graph;

  const auto error_of = [&](torch::jit::Module quantized) {
    torch::jit::Module exact = model.float_model();
    const at::Tensor expected = exact.forward({samples()[1][0]}).toTensor();
    return (quantized.forward({samples()[1][0]}).toTensor() - expected).norm().item<double>();
  };
  const Reference without = convert_to_reference(model, backend_config("x86"));
  EXPECT_LT(error_of(lowered.module()), 1.5 * error_of(lower(without, backend_config("x86")).module()));
}

TEST(Islands, APlanMadeAgainOfThatPlanIsTheSame) {
  const Prepared model = calibrated();
  const Plan plan = with_sum_in_int8(model);
  EXPECT_EQ(convert_to_reference(model, backend_config("x86"), {.plan = plan}).plan(), plan);
}

TEST(Islands, WithoutARangeTheyCannotBeInInt8) {
  const Plan plan = with_sum_in_int8(calibrated());
  Prepared model = prepared();
  torch::jit::Module module = model.module();
  for (const Sample& sample : samples()) module.forward({sample[0]});  // no facts but those of observers
  try {
    convert_to_reference(model, backend_config("x86"), {.plan = plan});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("cannot be planned as int8: in calibration it was not seen to read float32 alone"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace islands_test
}  // namespace tsq
