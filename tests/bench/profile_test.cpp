#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/bench/profile.h>
#include <tsq/engine_lock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/program_times.h"
#include "ir/define_method.h"
#include "pipeline/operator_watch.h"
#include "support/small_models.h"

namespace tsq::bench {
namespace profile_test {

using ::testing::Contains;
using ::testing::Field;

OperatorTime time(const std::string& kind, const std::string& layer, double seconds) {
  return {.kind = kind, .layer = layer, .seconds = seconds};
}

/// Convolution, batch norm and ReLU, twice; the int8 model has them in one kernel.
const Profile kFloat{.seconds = 1.0,
                     .operators = {time("aten::conv2d", "a.conv", 0.3), time("aten::batch_norm", "a.bn", 0.1),
                                   time("aten::relu", "", 0.05), time("aten::conv2d", "b.conv", 0.2),
                                   time("aten::relu", "", 0.05)}};
const Profile kInt8{
    .seconds = 0.6,
    .operators = {time("aten::quantize_per_tensor", "", 0.1), time("quantized::conv2d_relu", "a_conv", 0.1),
                  time("quantized::conv2d_relu", "b_conv", 0.25), time("aten::dequantize", "", 0.1)}};

TEST(Profiles, FunctionsAndMethodsOfTheSameModuleAreNoCallsOfModules) {
  using Calls = std::vector<std::string>;
  const auto names = [](const Calls& calls) {
    std::vector<std::string> found;
    for (const detail::CalledModule& each : detail::called_modules(calls))
      found.push_back(each.name + ":" + each.type);
    return found;
  };
  EXPECT_EQ(names({"TOP(Net)::forward", "features(Sequential)::forward", "0(Block)::forward",
                   "conv(Conv2d)::forward", "SELF(Conv2d)::_conv_forward"}),
            (Calls{"features:Sequential", "0:Block", "conv:Conv2d"}));
  EXPECT_EQ(names({"TOP(Net)::forward", "_pad(ZeroPad2d)::forward", "::pad"}), Calls{"_pad:ZeroPad2d"});
  EXPECT_EQ(names({"TOP(Net)::forward"}), Calls());
}

TEST(Profiles, AnOperatorOfANestedModuleBelongsToItsWholePath) {
  torch::jit::Module block = testing::user_module("Block");
  block.register_module("linear", testing::linear(4, 4));
  block.define("def forward(self, x):\n  return self.linear.forward(x)\n");
  torch::jit::Module model = testing::user_module("Nested");
  model.register_module("first", block);
  model.register_module("second", block.deepcopy());
  model.define("def forward(self, x):\n  return self.second.forward(self.first.forward(x))\n");
  model.eval();
  const Profile profile = bench::profile(model, engine_in_use(), {torch::ones({1, 4})}, 1);
  ASSERT_EQ(profile.operators.size(), 2U);
  EXPECT_EQ(profile.operators[0].layer, "first.linear");
  EXPECT_EQ(profile.operators[1].layer, "second.linear");
}

/// Two lists of blocks of one class, a linear layer and an activation each.
torch::jit::Module two_lists() {
  torch::jit::Module model = testing::user_module("Lists");
  std::string body;
  for (const std::string list : {"encoder", "decoder"}) {
    torch::jit::Module blocks = testing::user_module("ModuleList");
    for (const std::string number : {"0", "1"}) {
      torch::jit::Module block = testing::user_module("Block");
      block.register_module("linear", testing::linear(4, 4));
      block.define("def forward(self, x):\n  return torch.relu(self.linear.forward(x))\n");
      blocks.register_module(number, block);
      body += "  x = getattr(self." + list + ", \"" + number + "\").forward(x)\n";
    }
    model.register_module(list, blocks);
  }
  model.define("def forward(self, x):\n" + body + "  return x\n");
  model.eval();
  return model;
}

std::vector<std::string> layers_of(const Profile& profile) {
  std::vector<std::string> layers;
  for (const OperatorTime& time : profile.operators) layers.push_back(time.layer);
  return layers;
}

TEST(Profiles, AModuleInAListHasItsWholePath) {
  const torch::jit::Module model = two_lists();
  const std::vector<std::string> wanted{"encoder.0.linear", "encoder.0", "encoder.1.linear", "encoder.1",
                                        "decoder.0.linear", "decoder.0", "decoder.1.linear", "decoder.1"};
  const Sample sample{torch::ones({1, 4})};
  EXPECT_EQ(layers_of(bench::profile(model, engine_in_use(), sample, 2)), wanted);
  torch::jit::Module frozen = torch::jit::freeze(model);
  ir::own_call_stacks(frozen);
  EXPECT_EQ(layers_of(bench::profile(frozen, engine_in_use(), sample, 2, &model)), wanted)
      << "without weights to tell the lists by";
}

TEST(Profiles, NodesOfAFrozenModelBelongToItsOwnMethod) {
  torch::jit::Module frozen = torch::jit::freeze(two_lists());
  ir::own_call_stacks(frozen);
  const torch::jit::Method forward = frozen.get_method("forward");
  std::size_t inlined = 0;
  for (const torch::jit::Node* node : forward.graph()->nodes()) {
    if (!node->callstack()) continue;
    ++inlined;
    for (const auto& [function, range, module] : (*node->callstack())->vec())
      EXPECT_EQ(function, &forward.function());
  }
  EXPECT_GT(inlined, 0U);
}

ProfileRow row_of(const std::vector<ProfileRow>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &ProfileRow::name);
  return found == rows.end() ? ProfileRow{.name = "none", .counts = {0, 0}, .seconds = {-1, -1}} : *found;
}

std::vector<double> sums_of(const std::vector<ProfileRow>& rows) {
  std::vector<double> sums(2);
  for (const ProfileRow& row : rows) {
    for (std::size_t model = 0; model < sums.size(); ++model) sums[model] += row.seconds[model];
  }
  return sums;
}

TEST(Profiles, ALayerHasWhatFollowsItUpToTheNextThatBothModelsName) {
  const std::vector<ProfileRow> rows = by_layer({kFloat, kInt8});
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].name, "a.conv");
  EXPECT_NEAR(rows[0].seconds[0], 0.45, 1e-12);
  EXPECT_NEAR(rows[0].seconds[1], 0.1, 1e-12);
  EXPECT_EQ(rows[1].name, "b.conv");
  EXPECT_NEAR(rows[1].seconds[0], 0.25, 1e-12);
  EXPECT_NEAR(rows[1].seconds[1], 0.25, 1e-12);
  EXPECT_EQ(rows[2].name, "(conversions)");
  EXPECT_EQ(rows[2].counts, (std::vector<std::size_t>{0, 2}));
  EXPECT_NEAR(rows[2].seconds[1], 0.2, 1e-12);
}

TEST(Profiles, LayersThatNotAllModelsNameHaveNoRowAndAreNamed) {
  Profile folded = kFloat;
  folded.operators[0].layer = "only.here";
  EXPECT_EQ(bench::layers_without_row({kFloat, kFloat}), std::vector<std::string>());
  EXPECT_EQ(bench::layers_without_row({kFloat, folded}).back(), "only.here");
}

TEST(Profiles, LayersThatAreNumberedHaveARow) {
  Profile plain = kFloat;
  Profile of_tsq = kInt8;
  for (OperatorTime& time : plain.operators) {
    if (time.layer == "a.conv") time.layer = "0";
  }
  for (OperatorTime& time : of_tsq.operators) {
    if (time.layer == "a.conv" || time.layer == "a_conv") time.layer = "_0";
  }
  EXPECT_EQ(by_layer({plain, of_tsq})[0].name, "0");
  EXPECT_EQ(bench::layers_without_row({plain, of_tsq}), bench::layers_without_row({kFloat, kInt8}));
}

TEST(Profiles, AModelInAWrapperHasTheSameLayers) {
  Profile wrapped = kInt8;
  for (OperatorTime& time : wrapped.operators) {
    time.layer = time.layer.empty() ? "wrapped.net" : "wrapped.net." + time.layer;
  }
  const std::vector<ProfileRow> rows = by_layer({kFloat, wrapped});
  EXPECT_EQ(rows[0].name, "a.conv");
  EXPECT_EQ(rows[1].name, "b.conv");
  EXPECT_NEAR(rows[1].seconds[1], 0.25, 1e-12);
}

TEST(Profiles, ConversionsAndTimeBetweenOperatorsStandByThemselves) {
  const std::vector<ProfileRow> rows = by_kind({kFloat, kInt8});
  EXPECT_EQ(rows.front().name, "aten::conv2d");
  EXPECT_EQ(row_of(rows, "quantized::conv2d_relu").counts[1], 2U);
  EXPECT_EQ(rows[rows.size() - 2].name, "aten::dequantize");
  EXPECT_EQ(rows.back().name, "(between operators)");
  EXPECT_NEAR(rows.back().seconds[0], 0.3, 1e-12);
}

TEST(Profiles, LayersAndKindsAddUpToTheWholeRun) {
  for (const std::vector<double>& sums :
       {sums_of(by_kind({kFloat, kInt8})), sums_of(by_layer({kFloat, kInt8}))}) {
    EXPECT_NEAR(sums[0], kFloat.seconds, 1e-12);
    EXPECT_NEAR(sums[1], kInt8.seconds, 1e-12);
  }
}

TEST(Profiles, AnOperatorTooManyShowsInItsKindAndItsLayer) {
  Profile planted = kInt8;
  planted.operators.insert(planted.operators.begin() + 2, time("aten::sort", "", 0.2));
  planted.seconds += 0.2;
  EXPECT_EQ(row_of(by_kind({kInt8, planted}), "aten::sort").counts, (std::vector<std::size_t>{0, 1}));
  const std::vector<ProfileRow> layers = by_layer({kInt8, planted});
  EXPECT_EQ(row_of(layers, "a_conv").counts, (std::vector<std::size_t>{1, 2}));
  EXPECT_NEAR(row_of(layers, "a_conv").seconds[1], 0.3, 1e-12);
  EXPECT_NEAR(row_of(layers, "b_conv").seconds[1], 0.25, 1e-12);
}

TEST(Profiles, TheMedianLeavesOutRunsOfAnotherCourse) {
  Profile slow = kInt8;
  slow.operators[1].seconds = 9;
  Profile fast = kInt8;
  fast.operators[1].seconds = 0.05;
  slow.seconds += 8.9;
  fast.seconds -= 0.05;
  const Profile median = median_of({kFloat, kInt8, slow, kFloat, fast});
  EXPECT_EQ(median.operators.size(), kInt8.operators.size());
  EXPECT_NEAR(median.operators[1].seconds, 0.1, 1e-12);
  EXPECT_NEAR(median.seconds, kInt8.seconds, 1e-12) << "the time between operators is the same in all runs";
}

TEST(Profiles, OperatorsOfARealModelHaveKindsAndLayers) {
  torch::jit::Module model = testing::conv_bn_relu();
  model.eval();
  const std::vector<at::IValue> sample{torch::randn({1, 3, 8, 8})};
  const std::vector<OperatorTime> operators = profile(model, engine_in_use(), sample, 2).operators;
  EXPECT_THAT(operators, Contains(AllOf(Field(&OperatorTime::kind, "aten::conv2d"),
                                        Field(&OperatorTime::layer, "conv"))));
  EXPECT_THAT(operators, Contains(Field(&OperatorTime::kind, "aten::relu")));
  EXPECT_THAT(operators, Not(Contains(Field(&OperatorTime::kind, "aten::convolution")))) << "conv2d calls it";
}

/// A program of two layers between conversions, with a clock's time around each step.
Profile fused_profile() {
  const auto step = [](const std::string& kind, const std::string& layer, double seconds) {
    return OperatorTime{
        .kind = kind, .layer = layer, .kernel = "brgconv", .shape = "1x8", .seconds = seconds};
  };
  Profile fused{.seconds = 0.5, .operators = {time("tsq::run", "", 0.4)}};
  fused.operators[0].steps = {step("tsq::convert", "", 0.05), step("tsq::convolution", "a_conv", 0.1),
                              step("tsq::convolution", "b_conv", 0.2)};
  return fused;
}

TEST(Profiles, StepsOfAProgramStandInThePlaceOfItsCall) {
  const std::vector<ProfileRow> layers = by_layer({kFloat, fused_profile()});
  EXPECT_NEAR(row_of(layers, "a.conv").seconds[1], 0.1, 1e-12);
  EXPECT_NEAR(row_of(layers, "b.conv").seconds[1], 0.2, 1e-12);
  EXPECT_NEAR(row_of(layers, "(conversions)").seconds[1], 0.05, 1e-12);
  EXPECT_NEAR(layers.back().seconds[1], 0.15, 1e-12) << "what the call does besides, and the time around it";
  const std::vector<ProfileRow> kinds = by_kind({kFloat, fused_profile()});
  EXPECT_EQ(row_of(kinds, "tsq::convolution").counts[1], 2U);
  EXPECT_EQ(row_of(kinds, "tsq::run").name, "none");
  EXPECT_NEAR(sums_of(layers)[1], 0.5, 1e-12);
  EXPECT_NEAR(sums_of(kinds)[1], 0.5, 1e-12);
}

TEST(Profiles, StepsTakeNoLongerThanTheCall) {
  Profile fused = fused_profile();
  std::vector<OperatorTime> steps = std::move(fused.operators[0].steps);
  steps[2].seconds = 0.65;
  add_steps(fused.operators[0], std::move(steps));
  EXPECT_NEAR(fused.operators[0].steps[2].seconds, 0.325, 1e-12) << "0.4 of 0.8";
  EXPECT_NEAR(sums_of(by_kind({kFloat, fused}))[1], 0.5, 1e-12);
}

TEST(Profiles, TheTraceHasAnEventForEachOperatorAndAProcessForEachModel) {
  const nlohmann::json trace = chrome_trace({"float.pt", "int8.pt"}, {kFloat, kInt8});
  const nlohmann::json& events = trace["traceEvents"];
  EXPECT_EQ(events.size(), 2 + kFloat.operators.size() + kInt8.operators.size());
  EXPECT_EQ(events[0]["args"]["name"], "float.pt");
  EXPECT_EQ(events[1]["name"], "aten::conv2d");
  EXPECT_NEAR(events[1]["dur"].get<double>(), 300000, 1e-6);
  EXPECT_EQ(events.back()["cat"], "conversion");
  EXPECT_EQ(events.back()["pid"], 1);
}

TEST(Profiles, JsonKeepsAProfile) {
  for (const Profile& profile : {kInt8, fused_profile()})
    EXPECT_EQ(to_json(profile_from(to_json(profile))), to_json(profile));
  EXPECT_EQ(to_json(fused_profile())["operators"][0]["steps"][1]["kernel"], "brgconv");
}

}  // namespace profile_test
}  // namespace tsq::bench
