// Steps by themselves, and what is left out of their results because it cannot run.

#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/lowering.h>
#include <tsq/tried_step.h>

#include <limits>
#include <set>
#include <stdexcept>

#include "pipeline/stage.h"
#include "support/small_models.h"
#include "trial/leave_out.h"

namespace tsq {
namespace tried_step_test {

using detail::Indices;
using detail::LeftOut;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using torch::jit::Module;

/// What a model of twenty parts says that fails where `fails` does.
LeftOut left_out(const std::function<bool(const std::set<std::size_t>& in_int8)>& fails) {
  const auto try_without = [&](const Indices& in_float) -> std::optional<TrialFault> {
    std::set<std::size_t> in_int8;
    for (std::size_t part = 0; part < 20; ++part) in_int8.insert(part);
    for (const std::size_t part : in_float) in_int8.erase(part);
    return fails(in_int8) ? std::optional(TrialFault{.text = "it fails"}) : std::nullopt;
  };
  return detail::leave_out_failing(20, {.text = "it fails"}, try_without);
}

TEST(LeaveOut, EachPartThatFailsByItselfIsFound) {
  EXPECT_THAT(left_out([](const auto& parts) { return parts.contains(3) || parts.contains(17); }).parts(),
              ElementsAre(3, 17));
}

TEST(LeaveOut, OneOfTwoPartsThatFailTogetherIsEnough) {
  EXPECT_THAT(left_out([](const auto& parts) { return parts.contains(3) && parts.contains(17); }).parts(),
              ElementsAre(17));
}

TEST(LeaveOut, WhereNoPartIsToBlameAllAre) {
  const LeftOut left = left_out([](const auto&) { return true; });
  EXPECT_EQ(left.faults.size(), 1U);
  EXPECT_EQ(left.parts().size(), 20U);
}

at::Tensor failing_relu(const at::Tensor& /*x*/, double /*scale*/, int64_t /*zero_point*/) {
  throw std::runtime_error("no such kernel on this chip");
}

/// The table of x86 for an engine of one's own, whose kernel for ReLU fails.
BackendConfig failing_backend() {
  static const auto kKernel = torch::RegisterOperators().op(
      "tsq_test::failing_relu(Tensor x, float scale, int zero_point) -> Tensor", &failing_relu);
  if (lowering_rows("fails_on_relu").empty()) {
    register_lowering(
        {.backend = "fails_on_relu", .op = symbol("torch.nn.ReLU"), .kernel = "tsq_test::failing_relu"});
  }
  return backend_config("x86").set_name("fails_on_relu");
}

std::vector<Sample> samples() {
  torch::manual_seed(3);
  std::vector<Sample> result;
  for (int i = 0; i < 3; ++i) result.push_back({torch::randn({4, 6})});
  return result;
}

/// ReLU → `last`.
Module model(const char* last) {
  torch::manual_seed(5);
  Module model = testing::user_module("Model");
  model.register_module("relu", testing::relu());
  model.register_module(last, testing::linear(6, 8));
  model.define(std::string("def forward(self, x):\n  return self.") + last +
               ".forward(self.relu.forward(x))\n");
  model.eval();
  return model;
}

Prepared calibrated(const BackendConfig& backend, const char* last = "linear") {
  Prepared prepared = prepare(model(last), default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, samples());
  return prepared;
}

std::string code(const Module& module) { return module.get_method("forward").graph()->toString(); }

TriedStep lowered(const StepTrial& trial) {
  const BackendConfig backend = failing_backend();
  return lower_and_try(convert_to_reference(calibrated(backend), backend), backend, {}, trial);
}

TEST(LowerAndTry, AnOperatorWhoseKernelFailsStaysAsTheReferenceHasIt) {
  const std::vector<Sample> data = samples();
  const TriedStep step = lowered({.samples = data});
  EXPECT_FALSE(step.trial.fault.has_value());
  EXPECT_EQ(step.trial.samples, 3U);
  ASSERT_EQ(step.left_float.size(), 1U);
  ASSERT_EQ(step.left_float[0].layers.size(), 1U);
  EXPECT_EQ(step.left_float[0].layers[0].name, "relu");
  EXPECT_THAT(step.left_float[0].text, HasSubstr("no such kernel on this chip"));
  EXPECT_THAT(code(step.module()), Not(HasSubstr("failing_relu")));
  EXPECT_THAT(code(step.module()), HasSubstr("quantized::linear"));
  for (const Decision& decision : step.report().decisions)
    EXPECT_EQ(decision.quantized, decision.layer != "relu") << decision.reason;
}

TEST(LowerAndTry, WithoutSamplesNothingRuns) {
  const TriedStep step = lowered({});
  EXPECT_TRUE(step.left_float.empty());
  EXPECT_THAT(code(step.module()), HasSubstr("failing_relu"));
}

TEST(LowerAndTry, ForceLeavesNothingOut) {
  const std::vector<Sample> data = samples();
  const TriedStep step = lowered({.samples = data, .force = true});
  EXPECT_TRUE(step.trial.fault.has_value());
  EXPECT_THAT(code(step.module()), HasSubstr("failing_relu"));
}

TEST(LowerAndTry, AnOperatorOfEveryKindCanStayAsTheReferenceHasIt) {
  const BackendConfig backend = backend_config("x86");
  const Reference reference = convert_to_reference(calibrated(backend), backend);
  LoweringOptions options;
  for (const Decision& decision : reference.report().decisions)
    options.kept_reference.emplace(decision.node, "");
  const std::string graph = code(lower(reference, backend, options));
  EXPECT_THAT(graph, Not(HasSubstr("quantized::")));
  EXPECT_THAT(graph, Not(HasSubstr("quantize_per_channel")));  // the weight is rounded once
}

TEST(ConvertAndTry, ALayerThatFailsStaysFloat) {
  const BackendConfig backend = backend_config("x86");
  const Prepared prepared = calibrated(backend, "bad");
  for (ir::ObserverEntry& observer : detail::stage_of(prepared).model.observers) {
    if (observer.layer == "bad")
      observer.module->attr("max_val").toTensor().fill_(std::numeric_limits<float>::infinity());
  }
  const std::vector<Sample> data = samples();
  const TriedStep step = convert_and_try(prepared, backend, {}, {.samples = data});
  EXPECT_FALSE(step.trial.fault.has_value());
  ASSERT_EQ(step.left_float.size(), 1U);
  ASSERT_EQ(step.left_float[0].layers.size(), 1U);
  EXPECT_EQ(step.left_float[0].layers[0].name, "bad");
}

}  // namespace tried_step_test
}  // namespace tsq
