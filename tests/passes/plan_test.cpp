// A plan: what the rules have decided, read off a draft, given back, edited, and refused.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/backends.h>
#include <tsq/error.h>
#include <tsq/files.h>
#include <tsq/plan.h>
#include <tsq/quantize.h>
#include <tsq/recipe.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/analysis.h"
#include "passes/place/draft.h"
#include "passes/place/passes.h"
#include "pipeline/stage.h"
#include "support/before_pass.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace plan_test {

/// one → relu → two → gelu → three.
Prepared prepared(Recipe recipe = Recipe::Best) {
  torch::jit::Module model = testing::user_module("Three");
  for (const char* name : {"one", "two", "three"}) model.register_module(name, testing::conv2d(4, 4, 3));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.relu(self.one.forward(x))\n"
      "  return self.three.forward(torch.gelu(self.two.forward(y)))\n");
  Prepared result = prepare(model, default_qconfig_mapping("x86"), backend_config("x86"),
                            {.recipe = recipe, .machine = testing::slow_in_float()});
  const std::vector<Sample> samples{{at::linspace(-1, 1, 4 * 12 * 12).view({1, 4, 12, 12})}};
  calibrate(result, samples);
  return result;
}

Reference converted(const Prepared& model, std::optional<Plan> plan = std::nullopt) {
  return convert_to_reference(model, backend_config("x86"), {.plan = std::move(plan)});
}

std::string code_of(const Reference& reference) {
  return reference.module().get_method("forward").graph()->toString(/*print_source_locations=*/false);
}

PlannedOperator& planned(Plan& plan, std::string_view layer) {
  const auto found = std::ranges::find_if(plan.operators, [&](const PlannedOperator& each) {
    return each.layer == layer && each.op.find("Conv") != std::string::npos;
  });
  if (found == plan.operators.end()) throw std::runtime_error("no layer " + std::string(layer));
  return *found;
}

const Decision& decision(const Report& report, std::string_view layer) {
  return *std::ranges::find(report.decisions, layer, &Decision::layer);
}

std::string refusal(const Prepared& model, const Plan& plan) {
  try {
    converted(model, plan);
  } catch (const Error& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(Plan, EachPlacementAndReasonHasANameOfItsOwn) {
  for (int i = 0; i <= static_cast<int>(Placement::Written); ++i) {
    const auto placement = static_cast<Placement>(i);
    EXPECT_EQ(placement_named(to_string(placement)), placement);
  }
  for (int i = 0; i <= static_cast<int>(Reason::Memory); ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_EQ(reason_named(to_string(reason)), reason);
  }
  EXPECT_EQ(placement_named("elsewhere"), std::nullopt);
  EXPECT_EQ(to_string(Reason::ReadsFloat), "reads_float");
}

TEST(Plan, IsTheSameOutOfItsJson) {
  const Plan plan{
      .backend = "x86",
      .engine = "x86",
      .target = "stock",
      .recipe = "best",
      .operators =
          {{.node = "a",
            .layer = "one",
            .op = "torch.nn.Conv2d",
            .placement = Placement::Int8FloatOut,
            .notes = {"n"},
            .kernel = "k",
            .fold = PaddingFold{.before = {1, 0},
                                .after = {0, 1},
                                .padding = {1, 1},
                                .kernel = {3, 3},
                                .offset = {0, 1},
                                .may_have_too_many_outputs = true},
            .float_recurrent_weights = 4},
           {.node = "b", .reason = Reason::KernelFault, .detail = "d", .remedy = "r", .has_qconfig = false}},
      .values = {{.value = "v", .observer = "o", .is_rounded = false},
                 {.value = "w", .observer = "p", .exact_for = {"a"}}},
      .standalone = {{"inner", {.backend = "x86"}}}};
  EXPECT_EQ(Plan::from_dict(plan.to_dict()), plan);
}

TEST(Plan, WordsThatAreNoReasonAreOnesOwn) {
  nlohmann::json json = Plan{.operators = {{.node = "a"}}}.to_dict();
  json["operators"][0]["reason"] = "it is too coarse for us";
  const Plan plan = Plan::from_dict(json);
  EXPECT_EQ(plan.operators[0].reason, Reason::LeftOut);
  EXPECT_EQ(plan.operators[0].detail, "it is too coarse for us");
}

TEST(Plan, JsonThatIsNoPlanIsRefusedByItsPlace) {
  const auto expect_refusal = [](const nlohmann::json& json, const std::string& text) {
    try {
      Plan::from_dict(json);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  nlohmann::json json = Plan{.operators = {{.node = "a"}}}.to_dict();
  expect_refusal(nlohmann::json::array(), "this is no plan");
  expect_refusal({{"format", "elsewhere"}}, "this is no plan");
  json["version"] = 2;
  expect_refusal(json, "the plan has version 2, and this tsq reads 1");
  json["version"] = 1;
  json["operators"][0]["placement"] = "int9";
  expect_refusal(json, "at 'operators[0].placement': 'int9' is no placement");
  json["operators"][0] = {
      {"node", "a"}, {"placement", "int8"}, {"fold", {{"before", {1}}, {"after", {1, 2}}}}};
  expect_refusal(json, "operators[0].fold");
}

TEST(Plan, ADraftLeavesItsModelAlone) {
  testing::CalibratedModel calibrated = testing::before_pass(prepared(), "leave_unreached");
  const std::string before = calibrated.model.graph->toString();
  passes::Draft draft(calibrated.model);
  passes::place_by_table(draft.model(), calibrated.context);
  passes::choose(draft.model(), calibrated.context);
  EXPECT_EQ(calibrated.model.graph->toString(), before);
  EXPECT_TRUE(std::ranges::all_of(calibrated.model.records, [](const ir::NodeRecord& record) {
    return record.placement == Placement::Undecided;
  }));
  EXPECT_TRUE(std::ranges::any_of(draft.plan(calibrated.context).operators, [](const PlannedOperator& each) {
    return each.placement == Placement::Int8;
  }));
}

TEST(Plan, GivenBackMakesTheSameReferenceAndReport) {
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    const Prepared model = prepared(recipe);
    const Reference first = converted(model);
    const Plan plan = first.plan();
    const Reference again = converted(model, Plan::from_dict(plan.to_dict()));
    EXPECT_EQ(code_of(again), code_of(first));
    EXPECT_EQ(again.report().to_json(), first.report().to_json());
    EXPECT_EQ(again.plan(), plan);
  }
}

TEST(Plan, ALayerThatIsPlannedInFloatComputesInFloatForTheGivenReason) {
  const Prepared model = prepared();
  Plan plan = converted(model).plan();
  ASSERT_EQ(planned(plan, "one").placement, Placement::Int8);
  planned(plan, "one").placement = Placement::Float;
  planned(plan, "one").reason = Reason::LeftOut;
  planned(plan, "one").detail = "it is the first one";
  const Reference reference = converted(model, plan);
  const Decision& one = decision(reference.report(), "one");
  EXPECT_FALSE(one.quantized);
  EXPECT_EQ(one.reason, "it is the first one");
  EXPECT_TRUE(decision(reference.report(), "two").quantized);
  EXPECT_NE(code_of(reference), code_of(converted(model)));
}

TEST(Plan, AnOperatorThatIsPlannedInFloatBetweenRoundedValuesIsNoInt8Kernel) {
  torch::jit::Module model = testing::user_module("Sum");
  for (const char* name : {"one", "two", "three"}) model.register_module(name, testing::conv2d(4, 4, 3));
  model.define(
      "def forward(self, x):\n"
      "  return self.three.forward(self.one.forward(x) + self.two.forward(x))\n");
  Prepared result = prepare(model, default_qconfig_mapping("x86"), backend_config("x86"),
                            {.machine = testing::slow_in_float()});
  const std::vector<Sample> samples{{at::linspace(-1, 1, 4 * 12 * 12).view({1, 4, 12, 12})}};
  calibrate(result, samples);
  const auto code_with = [&](const Plan& plan) {
    const Reference reference = converted(result, plan);
    return lower(reference, backend_config("x86")).module().get_method("forward").graph()->toString(false);
  };
  Plan plan = converted(result).plan();
  EXPECT_NE(code_with(plan).find("quantized::add"), std::string::npos);
  const auto sum = std::ranges::find_if(
      plan.operators, [](const PlannedOperator& each) { return each.op.find("add") != std::string::npos; });
  ASSERT_NE(sum, plan.operators.end());
  sum->placement = Placement::Float;
  EXPECT_EQ(code_with(plan).find("quantized::add"), std::string::npos);
  EXPECT_NE(code_with(plan).find("aten::add"), std::string::npos);
}

TEST(Plan, AValueThatIsNotPlannedAsRoundedIsNotRounded) {
  const Prepared model = prepared();
  const auto roundings = [](const Reference& reference) {
    const std::string code = code_of(reference);
    std::size_t count = 0;
    for (auto at = code.find("quantize_per_tensor("); at != std::string::npos;
         at = code.find("quantize_per_tensor(", at + 1))
      ++count;
    return count;
  };
  const Reference before = converted(model);
  Plan plan = before.plan();
  PlannedOperator& one = planned(plan, "one");
  one.placement = Placement::Float;
  one.reason = Reason::LeftOut;
  const auto input =
      std::ranges::find(plan.values, "x", [](const PlannedValue& each) { return each.value.substr(0, 1); });
  ASSERT_NE(input, plan.values.end());
  ASSERT_TRUE(input->is_rounded);
  input->is_rounded = false;
  EXPECT_EQ(roundings(converted(model, plan)), roundings(before) - 1);
}

TEST(Plan, ALayerInInt8NeedsARoundedInput) {
  const Prepared model = prepared();
  Plan plan = converted(model).plan();
  for (PlannedValue& value : plan.values) value.is_rounded = false;
  const std::string text = refusal(model, plan);
  EXPECT_NE(text.find("layer 'one'"), std::string::npos) << text;
  EXPECT_NE(text.find("is planned in int8, and what it reads, '"), std::string::npos) << text;
  EXPECT_NE(text.find("plan the value as rounded, or the layer as float"), std::string::npos) << text;
}

TEST(Plan, AnOperatorThatPrepareHasNotObservedCannotBeInInt8) {
  const Prepared model = prepared();
  Plan plan = converted(model).plan();
  const auto gelu = std::ranges::find_if(
      plan.operators, [](const PlannedOperator& each) { return each.op.find("gelu") != std::string::npos; });
  ASSERT_NE(gelu, plan.operators.end());
  gelu->placement = Placement::Int8;
  gelu->reason = Reason::None;
  const std::string text = refusal(model, plan);
  EXPECT_NE(text.find("gelu' cannot be planned as int8: prepare has put no observers around it"),
            std::string::npos)
      << text;
}

/// With a sum that no kernel of LibTorch's takes.
torch::jit::Module refused_sum() {
  torch::jit::Module model = testing::user_module("Sum");
  for (const char* name : {"one", "two"}) model.register_module(name, testing::conv2d(4, 4, 3));
  model.define(
      "def forward(self, x):\n"
      "  y = self.one.forward(x)\n"
      "  return self.two.forward(torch.add(y, torch.relu(y), alpha=2))\n");
  return model;
}

TEST(Plan, WhatEveryKernelRefusesIsPlannedBetweenRoundingsAndNotInInt8) {
  const torch::jit::Module model = refused_sum();
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend_config("x86"),
                              {.machine = testing::slow_in_float()});
  calibrate(prepared, std::vector<Sample>{{torch::randn({1, 4, 12, 12})}});
  Plan plan = converted(prepared).plan();
  const auto sum = std::ranges::find_if(
      plan.operators, [](const PlannedOperator& each) { return each.op.find("add") != std::string::npos; });
  ASSERT_NE(sum, plan.operators.end());
  EXPECT_EQ(sum->placement, Placement::Reference);
  EXPECT_EQ(sum->reason, Reason::NoKernel);
  sum->placement = Placement::Int8;
  sum->reason = Reason::None;
  const std::string text = refusal(prepared, plan);
  EXPECT_NE(text.find("' cannot be planned as int8: the kernels of addition have no alpha"),
            std::string::npos)
      << text;
}

TEST(Plan, OfAnotherModelTableTargetOrRecipeIsRefused) {
  const Prepared model = prepared();
  const Plan plan = converted(model).plan();
  const auto with = [&](const auto& change) {
    Plan changed = plan;
    change(changed);
    return refusal(model, changed);
  };
  const auto expect = [&](const auto& change, const std::string& text) {
    const std::string refused = with(change);
    EXPECT_NE(refused.find(text), std::string::npos) << refused;
  };
  expect([](Plan& p) { p.operators.pop_back(); }, "the plan is of another model: it has");
  expect([](Plan& p) { p.operators.push_back(p.operators.front()); }, "the plan is of another model: it has");
  expect([](Plan& p) { p.operators.front().op = "torch.nn.LSTM"; }, "(torch.nn.LSTM");
  expect([](Plan& p) { p.values.clear(); }, "it has 0 observed values");
  expect([](Plan& p) { p.values.front().observer = "z"; }, "where it has the observer 'z'");
  expect([](Plan& p) { p.values.front().exact_for = {"z"}; }, "exact for 'z', which no operator is called");
  expect([](Plan& p) { p.backend = "fbgemm"; }, "is for backend 'fbgemm'");
  expect([](Plan& p) { p.target = "fused"; }, "is for target 'fused'");
  expect([](Plan& p) { p.recipe = "fx"; }, "is for recipe 'fx'");
}

TEST(Plan, PreparedReferenceAndQuantizedFilesHoldIt) {
  const testing::TemporaryFolder folder;
  const Prepared model = prepared();
  Plan plan = converted(model).plan();
  const std::string path = folder.file("model.pt");
  model.save(path);
  EXPECT_EQ(converted(Prepared::load(path)).plan(), plan);
  planned(plan, "three").placement = Placement::Float;
  planned(plan, "three").reason = Reason::LeftOut;
  const Reference edited = converted(model, plan);
  edited.save(path);
  const Reference loaded = Reference::load(path);
  EXPECT_EQ(loaded.plan(), plan);
  EXPECT_EQ(code_of(loaded), code_of(edited));
  save(lower(edited, backend_config("x86")), path);
  plan.prediction.reset();  // of a model that is made nobody needs one
  EXPECT_EQ(read_plan(path), plan);
}

TEST(Plan, WhatAKernelOfTheProgramTakesIsInInt8) {
  for (const bool is_registered : {false, true}) {
    testing::CalibratedModel calibrated =
        testing::before_pass(refused_sum(), torch::randn({1, 4, 12, 12}), "x86", "leave_refused");
    if (is_registered)
      calibrated.context.lowering_rows = {
          {.backend = "x86", .op = symbol("operator.add"), .kernel = "my::add"}};
    EXPECT_EQ(passes::leave_refused(calibrated.model, calibrated.context), !is_registered);
  }
}

TEST(Plan, OfAFileNamesWhatLowerKeptWhereCalibrationHasFoldedCasts) {
  const testing::TemporaryFolder folder;
  const BackendConfig backend = backend_config("x86");
  torch::jit::Module model = testing::user_module("Cast");
  for (const char* name : {"one", "two"}) model.register_module(name, testing::conv2d(4, 4, 3));
  model.register_buffer("shift", at::ones({1}, at::kDouble));
  model.define(
      "def forward(self, x):\n"
      "  y = self.one.forward(x) + self.shift.to(x.dtype)\n"
      "  return self.two.forward(torch.relu(y))\n");
  Prepared prepared =
      prepare(model, default_qconfig_mapping("x86"), backend, {.machine = testing::slow_in_float()});
  calibrate(prepared, std::vector<Sample>{{torch::randn({1, 4, 12, 12})}});
  const Reference reference = converted(prepared);
  const std::string kept = decision(reference.report(), "two").node;
  save(lower(reference, backend, {.kept_reference = {{kept, "why"}}}), folder.file("model.pt"));
  const Plan plan = read_plan(folder.file("model.pt")).value();
  for (const PlannedOperator& each : plan.operators)
    EXPECT_EQ(each.reason == Reason::KeptReference, each.layer == "two") << each.node;
}

TEST(Plan, OfAFileHasWhatLowerKeptAsTheReferenceHasIt) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("model.pt");
  const BackendConfig backend = backend_config("x86");
  const Prepared model = prepared();
  const Reference reference = converted(model);
  const std::string kept = decision(reference.report(), "three").node;
  const Lowered lowered = lower(reference, backend, {.kept_reference = {{kept, "its kernel fails"}}});
  save(lowered, path);
  const Plan plan = read_plan(path).value();
  const auto three = std::ranges::find(plan.operators, "three", &PlannedOperator::layer);
  ASSERT_NE(three, plan.operators.end());
  EXPECT_EQ(three->placement, Placement::Reference);
  EXPECT_EQ(three->reason, Reason::KeptReference);
  const auto code = [](const Lowered& each) {
    return each.module().get_method("forward").graph()->toString(/*print_source_locations=*/false);
  };
  EXPECT_EQ(code(lower(converted(model, plan), backend)), code(lowered));
}

TEST(Plan, OfAPreparedModelIsForgottenWhenItSeesMoreData) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("model.pt");
  prepared().save(path);
  Prepared loaded = Prepared::load(path);
  ASSERT_NE(detail::stage_of(loaded).plan, nullptr);
  const std::vector<Sample> samples{{at::ones({1, 4, 12, 12})}};
  calibrate(loaded, samples);
  EXPECT_EQ(detail::stage_of(loaded).plan, nullptr);
}

TEST(Plan, AndAMappingOfConvertAreTwoAnswers) {
  const Prepared model = prepared();
  EXPECT_THROW(
      convert_to_reference(model, backend_config("x86"),
                           {.mapping = default_qconfig_mapping("x86"), .plan = converted(model).plan()}),
      Error);
}

}  // namespace plan_test
}  // namespace tsq
