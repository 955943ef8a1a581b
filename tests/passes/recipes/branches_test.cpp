// What recipe best, and equalization, learn of layers that a branch chooses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <sstream>

#include "backends/kernels/engine.h"
#include "support/best_model.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"

namespace tsq {
namespace branches_test {

using torch::jit::Module;

constexpr const char* kEngines[] = {"x86", "fbgemm", "onednn", "qnnpack"};

/// `forward` reads maps of 8 or 16 channels, the layers "narrow" and "wide".
Module layers_of_two_widths(const std::string& forward) {
  torch::manual_seed(3);
  Module model = testing::user_module("TwoWidths");
  model.register_module("narrow", testing::conv2d(8, 4, 1));
  model.register_module("wide", testing::conv2d(16, 4, 1));
  model.register_module("narrow_rows", testing::linear(8, 4));
  model.register_module("wide_rows", testing::linear(16, 4));
  model.define("def forward(self, x):\n" + forward);
  return model;
}

std::vector<Sample> maps(bool are_rows) {
  torch::manual_seed(4);
  std::vector<Sample> samples;
  for (int i = 0; i < 8; ++i) {
    const int64_t channels = i % 2 == 0 ? 8 : 16;
    samples.push_back({are_rows ? torch::randn({12, channels}) : torch::randn({2, channels, 6, 6})});
  }
  return samples;
}

Prepared calibrated(const Module& model, const std::vector<Sample>& samples, const char* engine) {
  Prepared prepared = prepare(model, best_qconfig_mapping(engine), backend_config(engine),
                              {.machine = testing::slow_in_float()});
  calibrate(prepared, samples);
  return prepared;
}

/// Decibels over all samples, on the engine for which `quantized` was made.
double sqnr_of(const Module& model, const Module& quantized, const std::vector<Sample>& samples) {
  std::vector<at::Tensor> wanted;
  std::vector<at::Tensor> got;
  for (const Sample& sample : samples) {
    wanted.push_back(testing::run(model, sample[0].toTensor()).flatten());
    got.push_back(testing::run(quantized, sample[0].toTensor()).flatten());
  }
  return testing::sqnr(at::cat(wanted), at::cat(got));
}

class Branches : public ::testing::TestWithParam<const char*> {
 protected:
  /// The file of recipe best, loaded by LibTorch alone.
  static Module best(const Module& model, const std::vector<Sample>& samples) {
    std::stringstream file;
    convert(calibrated(model, samples, GetParam()), backend_config(GetParam())).module().save(file);
    return torch::jit::load(file);
  }

 private:
  EngineHold engine_{engine_of(backend_config(GetParam()))};
};

INSTANTIATE_TEST_SUITE_P(Engines, Branches, ::testing::ValuesIn(kEngines),
                         [](const auto& engine) { return std::string(engine.param); });

TEST_P(Branches, ALayerThatABranchChoosesLearnsFromWhatReachesIt) {
  const at::NoGradGuard no_grad;
  const Module model = layers_of_two_widths(
      "  y = x\n  if x.size(1) == 8:\n    y = self.narrow.forward(x)\n  if x.size(1) == 16:\n    y = "
      "self.wide.forward(x)\n  return y\n");
  const Module quantized = best(model, maps(false));
  EXPECT_EQ(testing::count(quantized, "aten::conv2d"), 0);
  EXPECT_GT(sqnr_of(model, quantized, maps(false)), 30);
}

TEST_P(Branches, ALinearLayerThatABranchChoosesLearnsFromWhatReachesIt) {
  const at::NoGradGuard no_grad;
  const Module model = layers_of_two_widths(
      "  y = x\n  if x.size(1) == 8:\n    y = self.narrow_rows.forward(x)\n  else:\n    y = "
      "self.wide_rows.forward(x)\n  return y\n");
  EXPECT_GT(sqnr_of(model, best(model, maps(true)), maps(true)), 30);
}

TEST_P(Branches, ALayerThatReadsWhatEveryBranchRoundsIsQuantized) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(5);
  Module model = testing::user_module("AfterBranches");
  for (const char* name : {"a", "b", "c", "last"}) model.register_module(name, testing::linear(64, 64));
  model.define(
      "def forward(self, x, second: bool = False):\n"
      "  if second:\n    if x.size(0) == 3:\n      y = self.b.forward(x)\n    else:\n      y = "
      "self.c.forward(x)\n"
      "  else:\n    y = self.a.forward(x)\n"
      "  return self.last.forward(y)\n");
  std::vector<Sample> samples;
  for (int i = 0; i < 9; ++i) samples.push_back({torch::randn({i % 3 == 0 ? 3 : 16, 64}), i % 2 == 0});
  EXPECT_EQ(testing::count(best(model, samples), "aten::linear"), 0);
}

/// "common" is called in both branches, "other" in the second alone.
Module with_a_branch(const Module& common, const Module& other, const std::string& layers) {
  Module model = testing::user_module("WithABranch");
  model.register_module("common", common);
  model.register_module("other", other);
  model.define("def forward(self, x, second: bool = False):\n  if second:\n    y = " + layers +
               "\n  else:\n    y = self.common.forward(x)\n  return y\n");
  return model;
}

double sqnr_of_second(Module model, Module quantized, const at::Tensor& x) {
  return testing::sqnr(model.forward({x, true}).toTensor(), quantized.forward({x, true}).toTensor());
}

std::vector<Sample> of_first_branch(at::IntArrayRef sizes) {
  torch::manual_seed(6);
  std::vector<Sample> samples;
  for (int i = 0; i < 8; ++i) samples.push_back({torch::randn(sizes), false});
  return samples;
}

TEST_P(Branches, ALinearLayerInABranchWithoutDataFindsItsRangeByTheSameWeight) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(5);
  const Module model = with_a_branch(testing::linear(64, 64), testing::linear(64, 64),
                                     "torch.relu(self.common.forward(x * 5.0))");
  const auto samples = of_first_branch({16, 64});
  const Module quantized = best(model, samples);
  EXPECT_GT(sqnr_of_second(model, quantized, samples[0][0].toTensor()), 25);
  EXPECT_EQ(testing::count(quantized, "aten::linear"), 0);
}

TEST_P(Branches, AConvolutionInABranchWithoutDataHasTheRangesOfItsOtherCall) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(5);
  const Module model =
      with_a_branch(testing::conv2d(3, 8, 3), testing::conv2d(3, 8, 3), "self.common.forward(x.flip([3]))");
  const auto samples = of_first_branch({2, 3, 8, 8});
  const Module quantized = best(model, samples);
  EXPECT_GT(sqnr_of_second(model, quantized, samples[0][0].toTensor()), 25);
  EXPECT_EQ(testing::count(quantized, "aten::conv2d"), 0);
}

TEST_P(Branches, AConvolutionInABranchWithoutDataThatReadsOtherValuesStaysFloat) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(5);
  const Module model =
      with_a_branch(testing::conv2d(3, 8, 3), testing::conv2d(3, 8, 3), "self.common.forward(x * 5.0)");
  const auto samples = of_first_branch({2, 3, 8, 8});
  EXPECT_GT(sqnr_of_second(model, best(model, samples), samples[0][0].toTensor()), 100);
}

TEST_P(Branches, AModelOfWhichSamplesReachNothingIsCalibratedAllTheSame) {
  Module model = testing::user_module("Unreached");
  model.register_module("layer", testing::linear(8, 8));
  model.define(
      "def forward(self, x, second: bool = False):\n"
      "  if second:\n    x = self.layer.forward(self.layer.forward(x))\n"
      "  return torch.sin(x)\n");
  const std::vector<Sample> samples{{torch::randn({4, 8}), false}};
  const Module result = best(model, samples);
  EXPECT_TRUE(at::equal(Module(result).forward({samples[0][0], false}).toTensor(),
                        torch::sin(samples[0][0].toTensor())));
}

TEST_P(Branches, WhatIsInABranchWithoutDataAloneStaysFloatAndSaysWhy) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(5);
  const Module model = with_a_branch(testing::linear(64, 64), testing::linear(64, 64),
                                     "torch.relu(self.other.forward(x * 5.0))");
  const auto samples = of_first_branch({16, 64});
  EXPECT_GT(sqnr_of_second(model, best(model, samples), samples[0][0].toTensor()), 100);
  const Reference reference =
      convert_to_reference(calibrated(model, samples, GetParam()), backend_config(GetParam()));
  EXPECT_TRUE(reference.report().unobserved_layers.empty());
  const auto& decisions = reference.report().decisions;
  const auto other = std::ranges::find(decisions, "other", &Decision::layer);
  ASSERT_NE(other, decisions.end());
  EXPECT_FALSE(other->quantized);
  EXPECT_THAT(other->reason, ::testing::HasSubstr("no calibration sample reached it"));
}

struct FxResult {
  Module module;
  std::vector<Decision> decisions{};
};

FxResult by_fx(const Module& model, const std::vector<Sample>& samples) {
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, samples);
  const Lowered lowered = convert(prepared, backend);
  return {.module = lowered.module(), .decisions = lowered.report().decisions};
}

TEST(BranchesOfFx, WhatIsInABranchWithoutDataAloneStaysFloatAndSaysWhy) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(5);
  const Module model =
      with_a_branch(testing::linear(64, 64), testing::linear(64, 64), "self.other.forward(x * 5.0)");
  const auto samples = of_first_branch({16, 64});
  const FxResult result = by_fx(model, samples);
  EXPECT_EQ(testing::count(result.module, "quantized::linear"), 1);
  // Its input is rounded in front of the branch.
  EXPECT_GT(sqnr_of_second(model, result.module, samples[0][0].toTensor()), 30);
  const auto other = std::ranges::find(result.decisions, "other", &Decision::layer);
  ASSERT_NE(other, result.decisions.end());
  EXPECT_FALSE(other->quantized);
  EXPECT_THAT(other->reason, ::testing::HasSubstr("no calibration sample reached it"));
}

TEST(BranchesOfFx, ALayerThatABranchWithoutDataCallsOnOtherValuesFindsItsRangeWhenItRuns) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(5);
  Module model = testing::user_module("TwoWays");
  for (const char* name : {"a", "b"}) model.register_module(name, testing::linear(64, 64));
  model.define(
      "def forward(self, x, second: bool = False):\n"
      "  if second:\n    y = self.b.forward(self.a.forward(x))\n"
      "  else:\n    y = self.b.forward(torch.relu(self.a.forward(x)))\n  return y\n");
  const auto samples = of_first_branch({16, 64});
  const FxResult result = by_fx(model, samples);
  EXPECT_GT(sqnr_of_second(model, result.module, samples[0][0].toTensor()), 20);
  EXPECT_EQ(testing::count(result.module, "aten::linear"), 0);
  EXPECT_TRUE(std::ranges::any_of(result.decisions, [](const Decision& decision) {
    return decision.layer == "b" && std::ranges::any_of(decision.notes, [](const std::string& note) {
             return note.find("no calibration sample reached it") != std::string::npos;
           });
  }));
}

/// Branches that meet in `o`: the second makes eight times as large values, of `second`.
Module meeting_branches(const std::string& second) {
  torch::manual_seed(5);
  Module model = testing::user_module("Meeting");
  for (const char* name : {"a", "b", "c", "d", "o"}) model.register_module(name, testing::linear(64, 64));
  model.attr("c").toModule().attr("weight").toTensor().mul_(8);
  model.define(
      "def forward(self, x, second: bool = False):\n  if second:\n    y = " + second +
      "\n  else:\n    y = self.b.forward(torch.relu(self.a.forward(x)))\n  return self.o.forward(y)\n");
  return model;
}

bool has_note(const std::vector<Decision>& decisions, const std::string& layer, const std::string& part) {
  const auto found = std::ranges::find(decisions, layer, &Decision::layer);
  return found != decisions.end() && std::ranges::any_of(found->notes, [&](const std::string& note) {
           return note.find(part) != std::string::npos;
         });
}

TEST_P(Branches, WhatABranchWithoutDataReturnsIsNotRoundedAsTheOthersResult) {
  const at::NoGradGuard no_grad;
  for (const std::string second : {"self.c.forward(x)", "self.c.forward(self.d.forward(x))"}) {
    const Module model = meeting_branches(second);
    const auto samples = of_first_branch({16, 64});
    const Lowered lowered = convert(calibrated(model, samples, GetParam()), backend_config(GetParam()));
    EXPECT_GT(sqnr_of_second(model, lowered.module(), samples[0][0].toTensor()), 25) << second;
    EXPECT_GT(sqnr_of(model, lowered.module(), {{samples[0][0]}}), 25) << second;
    EXPECT_TRUE(has_note(lowered.report().decisions, "o", "a branch that no calibration sample reached"))
        << second;
  }
}

TEST_P(Branches, BranchesThatSamplesReachHaveOneRange) {
  const at::NoGradGuard no_grad;
  const Module model = meeting_branches("self.c.forward(x)");
  std::vector<Sample> samples = of_first_branch({16, 64});
  for (const Sample& first : of_first_branch({16, 64})) samples.push_back({first[0], true});
  const Lowered lowered = convert(calibrated(model, samples, GetParam()), backend_config(GetParam()));
  EXPECT_FALSE(has_note(lowered.report().decisions, "o", "a branch that no calibration sample reached"));
  EXPECT_GT(sqnr_of_second(model, lowered.module(), samples[0][0].toTensor()), 20);
}

TEST_P(Branches, AMethodDoesNotTakeTheRangeOfABranchWithoutData) {
  const at::NoGradGuard no_grad;
  Module model = meeting_branches("self.c.forward(x)");
  model.define("def other(self, x):\n  return self.o.forward(self.c.forward(x))\n");
  const auto samples = of_first_branch({16, 64});
  const Lowered lowered = convert(calibrated(model, samples, GetParam()), backend_config(GetParam()));
  const auto other = [&](const Module& each) { return each.get_method("other")({samples[0][0]}).toTensor(); };
  EXPECT_GT(testing::sqnr(other(model), other(lowered.module())), 20);
}

TEST_P(Branches, AReachedBranchIsToldWhateverTheSizesOfItsValues) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(5);
  Module model = testing::user_module("Widths");
  for (const char* name : {"a", "b", "o"}) model.register_module(name, testing::conv2d(4, 4, 1));
  model.define(
      "def forward(self, x, second: bool = False):\n  if second:\n    y = self.a.forward(x)\n"
      "  else:\n    y = self.b.forward(x)\n  return self.o.forward(y)\n");
  std::vector<Sample> samples;
  for (const int64_t width : {8, 10, 12}) {
    for (const bool second : {false, true}) samples.push_back({torch::randn({2, 4, 8, width}), second});
  }
  const Lowered lowered = convert(calibrated(model, samples, GetParam()), backend_config(GetParam()));
  EXPECT_FALSE(has_note(lowered.report().decisions, "o", "a branch that no calibration sample reached"));
  EXPECT_TRUE(std::ranges::all_of(lowered.report().decisions, &Decision::quantized));
}

TEST_P(Branches, EachArmOfAChainIsToldFromTheOthers) {
  const at::NoGradGuard no_grad;
  for (int64_t unreached = 0; unreached < 3; ++unreached) {
    torch::manual_seed(5);
    Module model = testing::user_module("Arms");
    for (const char* name : {"a0", "a1", "a2", "o"}) model.register_module(name, testing::linear(64, 64));
    model.attr("a" + std::to_string(unreached)).toModule().attr("weight").toTensor().mul_(8);
    model.define(
        "def forward(self, x, way: int):\n  if way == 0:\n    y = self.a0.forward(x)\n"
        "  elif way == 1:\n    y = self.a1.forward(x)\n  else:\n    y = self.a2.forward(x)\n"
        "  return self.o.forward(y)\n");
    model.eval();
    std::vector<Sample> samples;
    for (int64_t i = 0; i < 8; ++i) {
      if (i % 3 != unreached) samples.push_back({torch::randn({16, 64}), i % 3});
    }
    const Lowered lowered = convert(calibrated(model, samples, GetParam()), backend_config(GetParam()));
    const Sample other{samples[0][0], unreached};
    const at::Tensor wanted = Module(model).forward(other).toTensor();
    const at::Tensor got = Module(lowered.module()).forward(other).toTensor();
    EXPECT_GT(testing::sqnr(wanted, got), 25) << unreached;
    EXPECT_TRUE(has_note(lowered.report().decisions, "o", "a branch that no calibration sample reached"))
        << unreached;
  }
}

TEST_P(Branches, WhatABranchOnlyHandsOnKeepsTheRangeOfTheResult) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(5);
  Module model = testing::user_module("Optional");
  for (const char* name : {"a", "b", "o"}) model.register_module(name, testing::linear(64, 64));
  model.define(
      "def forward(self, x, second: bool = False):\n  y = self.a.forward(x)\n"
      "  if second:\n    y = self.b.forward(y)\n  return self.o.forward(y)\n");
  model.eval();
  std::vector<Sample> samples = of_first_branch({16, 64});
  for (Sample& sample : samples) sample[1] = true;
  const Lowered lowered = convert(calibrated(model, samples, GetParam()), backend_config(GetParam()));
  EXPECT_TRUE(std::ranges::all_of(lowered.report().decisions, &Decision::quantized));
  EXPECT_GT(sqnr_of_second(model, lowered.module(), samples[0][0].toTensor()), 20);
}

TEST(BranchesOfEqualization, ALayerThatABranchChoosesIsEqualizedByWhatReachesIt) {
  const at::NoGradGuard no_grad;
  const Module model = layers_of_two_widths(
      "  y = x\n  if x.size(1) == 8:\n    y = self.narrow_rows.forward(x)\n  return y\n");
  const BackendConfig backend = backend_config("x86");
  Prepared prepared =
      prepare(model, default_qconfig_mapping("x86"), backend,
              {.equalization = EqualizationMapping().set_global(default_equalization_qconfig()),
               .recipe = Recipe::Fx});
  calibrate(prepared, maps(true));
  EXPECT_GT(sqnr_of(model, convert(prepared, backend), maps(true)), 25);
}

}  // namespace branches_test
}  // namespace tsq
