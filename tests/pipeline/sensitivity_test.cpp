// What int8 of each layer costs, and the fewest float layers that reach a goal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/sensitivity.h>
#include <tsq/trial.h>

#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "pipeline/float_layers.h"
#include "pipeline/stage.h"
#include "support/lowered.h"
#include "support/machine_profiles.h"
#include "support/rank_correlation.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace sensitivity_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using torch::jit::Module;

/// A layer that int8 destroys: its first input channel is always 0, and the weights for it leave no codes for
/// the others.
Module terrible(int64_t channels, double outlier) {
  const at::NoGradGuard no_grad;
  Module conv = testing::conv2d(channels, channels, 1);
  conv.attr("weight").toTensor().select(1, 0).fill_(outlier);
  return conv;
}

/// Its first output channel is always 0.
Module with_empty_channel(int64_t in, int64_t out) {
  const at::NoGradGuard no_grad;
  Module conv = testing::conv2d(in, out, 3);
  conv.attr("weight").toTensor().select(0, 0).zero_();
  conv.attr("bias").toTensor().select(0, 0).zero_();
  return conv;
}

/// first → bad → last
Module model_with_a_terrible_layer() {
  torch::manual_seed(5);
  Module model = testing::user_module("Chain");
  model.register_module("first", with_empty_channel(3, 6));
  model.register_module("bad", terrible(6, 300));
  model.register_module("last", testing::conv2d(6, 4, 1));
  model.define(
      "def forward(self, x):\n  return self.last.forward(self.bad.forward(self.first.forward(x)))\n");
  return model;
}

std::vector<Sample> samples(int64_t channels = 3, std::size_t count = 6) {
  torch::manual_seed(11);
  std::vector<Sample> list;
  for (std::size_t i = 0; i < count; ++i) list.push_back({torch::randn({2, channels, 10, 10})});
  return list;
}

struct Setting {
  Recipe recipe;
  std::string backend;
};

QConfigMapping mapping_for(const Setting& setting) {
  return setting.recipe == Recipe::Best ? best_qconfig_mapping(setting.backend)
                                        : default_qconfig_mapping(setting.backend);
}

Prepared calibrated(const Module& model, const QConfigMapping& mapping,
                    const Setting& setting = {Recipe::Fx, "x86"}) {
  Prepared prepared = prepare(model, mapping, backend_config(setting.backend),
                              {.recipe = setting.recipe, .machine = testing::slow_in_float()});
  calibrate(prepared, samples());
  return prepared;
}

std::vector<std::string> names(const std::vector<QuantizedLayer>& layers) {
  std::vector<std::string> result;
  for (const QuantizedLayer& layer : layers) result.push_back(layer.name);
  return result;
}

/// Layers of a mapping's own model that are float.
std::vector<std::string> float_layers(const Prepared& prepared) {
  std::vector<std::string> result;
  for (const Decision& decision : prepared.report().decisions) {
    if (!decision.quantized) result.push_back(decision.layer);
  }
  return result;
}

/// What an action that must fail says.
template <typename Action>
std::string sentence_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class EachRecipe : public ::testing::TestWithParam<Setting> {};

INSTANTIATE_TEST_SUITE_P(Recipes, EachRecipe,
                         ::testing::Values(Setting{Recipe::Fx, "x86"}, Setting{Recipe::Best, "x86"},
                                           Setting{Recipe::Best, "qnnpack"}));

TEST_P(EachRecipe, ALayerThatInt8DestroysRanksFirst) {
  const Setting setting = GetParam();
  const Prepared prepared = calibrated(model_with_a_terrible_layer(), mapping_for(setting), setting);
  const Sensitivity found = sensitivity(prepared, backend_config(setting.backend), samples());
  ASSERT_EQ(found.layers.size(), 3U);
  EXPECT_EQ(found.layers[0].layer.name, "bad");
  EXPECT_LT(found.layers[0].alone_db, 12);
  EXPECT_GT(found.layers[1].alone_db, 25);
  EXPECT_LE(found.layers[1].alone_db, found.layers[2].alone_db);
  EXPECT_EQ(found.float_layers_for(25), 1U);
}

TEST(Goal, TheSearchKeepsThatLayerFloatAndNoOther) {
  const Setting setting{Recipe::Fx, "x86"};
  const BackendConfig backend = backend_config(setting.backend);
  const Prepared prepared = calibrated(model_with_a_terrible_layer(), mapping_for(setting), setting);
  const AccuracyGoal goal = sqnr_goal(prepared, samples(), 25);
  const GoalSearch found = reach_goal(prepared, backend, goal, samples());
  ASSERT_TRUE(found.reached);
  EXPECT_THAT(names(found.kept), ElementsAre("bad"));
  EXPECT_GE(found.score, 25);
  EXPECT_EQ(goal.score(lower(*found.reference, backend)), found.score);
  EXPECT_EQ(found.mapping, keep_float(mapping_for(setting), found.kept));
  EXPECT_FALSE(found.trials.front().reached);
}

/// Convolutions with a residual and a linear layer, of weights as large as trained ones.
Module residual_network() {
  torch::manual_seed(5);
  const at::NoGradGuard no_grad;
  Module model = testing::user_module("Residual");
  for (const char* name : {"a", "b", "c", "d"}) model.register_module(name, testing::conv2d(8, 8, 1));
  model.register_module("first", testing::conv2d(3, 8, 3));
  model.register_module("last", testing::linear(8, 6));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.relu(self.first.forward(x))\n"
      "  z = torch.relu(self.b.forward(torch.relu(self.a.forward(y)))) + y\n"
      "  w = torch.relu(self.d.forward(torch.relu(self.c.forward(z)))) + z\n"
      "  return self.last.forward(w.mean([2, 3]))\n");
  testing::scale_as_trained(model);
  return model;
}

TEST(Sensitivity, QuickRanksAsTheModelsThatAreRun) {
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    const BackendConfig backend = backend_config("x86");
    Prepared prepared = prepare(residual_network(), default_qconfig_mapping("x86"), backend,
                                {.recipe = recipe, .machine = testing::slow_in_float(), .decibel_price = 0});
    const std::vector<Sample> data = samples(3, 16);
    calibrate(prepared, data);
    const Sensitivity run = sensitivity(prepared, backend, data);
    const Sensitivity quick = sensitivity(prepared, backend, data, {.quick = true});
    EXPECT_EQ(quick.int8_db, run.int8_db);
    EXPECT_EQ(quick.float_db, run.float_db);
    EXPECT_NEAR(quick.predicted_db.value(), run.int8_db, 3);
    EXPECT_FALSE(run.predicted_db.has_value());
    ASSERT_EQ(quick.layers.size(), run.layers.size());
    std::map<std::string, double> predicted;
    for (const LayerSensitivity& each : quick.layers) predicted[each.layer.to_text()] = each.alone_db;
    std::vector<double> by_run;
    std::vector<double> by_gradients;
    for (const LayerSensitivity& each : run.layers) {
      by_run.push_back(each.alone_db);
      by_gradients.push_back(predicted.at(each.layer.to_text()));
    }
    EXPECT_GE(testing::rank_correlation(by_run, by_gradients), 0.8)
        << ::testing::PrintToString(by_run) << ", " << ::testing::PrintToString(by_gradients);
    EXPECT_NEAR(quick.layers.front().cumulative_db, run.int8_db, 1e-6);
  }
}

TEST(Sensitivity, QuickKnowsHowEachModeRounds) {
  torch::manual_seed(5);
  Module model = testing::user_module("Linears");
  model.register_module("one", testing::linear(64, 64));
  model.register_module("two", testing::linear(64, 64));
  model.define("def forward(self, x):\n  return self.two.forward(torch.relu(self.one.forward(x)))\n");
  const std::vector<Sample> data{{torch::randn({4, 64})}, {torch::randn({4, 64})}};
  const BackendConfig backend = with_weight_only(backend_config("x86"));
  for (const char* name : {"float16_dynamic_qconfig", "default_dynamic_qconfig"}) {
    const Prepared prepared = prepare(model, QConfigMapping().set_global(qconfig(name)), backend);
    const Sensitivity quick = sensitivity(prepared, backend, data, {.quick = true});
    EXPECT_NEAR(quick.predicted_db.value(), quick.int8_db, 4) << name;
  }
}

TEST(Sensitivity, QuickNeedsNumbersThatGradientsComeFrom) {
  torch::manual_seed(5);
  Module model = testing::user_module("Labels");
  model.register_module("one", testing::linear(8, 8));
  model.define("def forward(self, x):\n  return self.one.forward(x).argmax(-1)\n");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend_config("x86"));
  const std::vector<Sample> data{{torch::randn({4, 8})}, {torch::randn({4, 8})}};
  calibrate(prepared, data);
  EXPECT_THAT(sentence_of([&] { (void)sensitivity(prepared, backend_config("x86"), data, {.quick = true}); }),
              HasSubstr("--quick"));
}

TEST(Sensitivity, CumulativeIsWhatTheModelOfTheMappingHas) {
  const Module model = model_with_a_terrible_layer();
  const BackendConfig backend = backend_config("x86");
  const Prepared prepared = calibrated(model, default_qconfig_mapping());
  const Sensitivity found = sensitivity(prepared, backend, samples());
  std::vector<QuantizedLayer> kept;
  for (const LayerSensitivity& each : found.layers) {
    const Prepared again = calibrated(model, keep_float(default_qconfig_mapping(), kept));
    const Trial trial = try_model(model, convert(again, backend), backend, samples());
    EXPECT_NEAR(each.cumulative_db, trial.sqnr_db.value(), 1e-6) << each.layer.name;
    kept.push_back(each.layer);
  }
  EXPECT_EQ(found.int8_db, found.layers.front().cumulative_db);
  EXPECT_EQ(found.layers.back().cumulative_db, found.layers.back().alone_db);
  EXPECT_TRUE(std::isinf(found.float_db));
}

TEST(Sensitivity, SamplesAreBoundedAndProgressCountsToItsTotal) {
  const Prepared prepared = calibrated(model_with_a_terrible_layer(), default_qconfig_mapping());
  std::pair<std::size_t, std::size_t> last;
  const Sensitivity found = sensitivity(prepared, backend_config("x86"), samples(3, 9),
                                        {.samples = 4, .progress = [&](std::size_t done, std::size_t total) {
                                           last = {done, total};
                                         }});
  EXPECT_EQ(found.samples, 4U);
  EXPECT_EQ(last, std::pair(std::size_t{7}, std::size_t{7}));
}

/// Two additions in `block`, the second with what int8 destroys: a sum of numbers of very different size.
Module model_with_additions() {
  torch::manual_seed(2);
  Module block = testing::user_module("Block");
  block.define("def forward(self, x, y):\n  z = torch.add(x, y)\n  return torch.add(z, x)\n");
  Module model = testing::user_module("Adding");
  model.register_module("one", testing::conv2d(3, 4, 3));
  model.register_module("two", testing::conv2d(3, 4, 3));
  model.register_module("block", block);
  model.register_module("three", testing::conv2d(4, 4, 1));
  model.define(
      "def forward(self, x):\n"
      "  return self.three.forward(self.block.forward(self.one.forward(x), self.two.forward(x)))\n");
  return model;
}

/// Small layers in a loop: one alone is faster in float, all together are not.
/// Each layer alone would have to round what it reads.
Module model_of_a_chain() {
  torch::manual_seed(2);
  Module model = testing::user_module("Chain");
  std::string chain = "x";
  for (int i = 0; i < 4; ++i) {
    const std::string name = "layer" + std::to_string(i);
    model.register_module(name, testing::linear(96, 96));
    chain = "torch.relu(self." + name + ".forward(" + chain + "))";
  }
  model.define("def forward(self, x):\n  return " + chain + "\n");
  model.eval();
  return model;
}

/// A machine on which rounding takes longer than a float layer, and less than four.
std::shared_ptr<const MachineProfile> slow_in_rounding() {
  MachineProfile profile = *machine_profile("avx512-vnni");
  const auto set = [&](const char* kernel, double nanoseconds) {
    for (auto& [threads, kernels] : profile.by_threads) kernels[kernel] = {{"call", nanoseconds}};
  };
  set("aten::linear", 10'000);
  set("aten::quantize_per_tensor", 20'000);
  set("x86 quantized::linear_with_input_q_dq_qweight_dq_output_fp32", 20'000);
  set("x86 quantized::linear", 100);
  set("x86 aten::dequantize", 100);
  return std::make_shared<const MachineProfile>(std::move(profile));
}

TEST(Sensitivity, ALayerThatIsInt8OnlyWithOthersIsJudgedByWhatTheWholeHasLessWithoutIt) {
  const BackendConfig backend = backend_config("x86");
  std::size_t only_with_others = 0;
  torch::manual_seed(3);
  std::vector<Sample> data;
  for (int i = 0; i < 4; ++i) data.push_back({torch::randn({8, 96})});
  Prepared prepared =
      prepare(model_of_a_chain(), best_qconfig_mapping("x86"), backend, {.machine = slow_in_rounding()});
  calibrate(prepared, data);
  const detail::Calibrated model = detail::calibrated(prepared);
  const detail::FloatOutputs wanted(detail::stage_of(prepared).float_model, data);
  const auto lowered = [&](std::map<std::string, std::string> float_nodes) {
    return lower(detail::with_float_nodes(model, backend, std::move(float_nodes)), backend);
  };
  const auto error_of = [&](const Lowered& made) {
    return std::pow(10, -wanted.compare(made, at::QEngine::X86).worst_db / 10);
  };
  const Lowered whole = lowered({});
  std::map<std::string, double> alone_db;
  for (const LayerSensitivity& each : sensitivity(prepared, backend, data).layers)
    alone_db.emplace(each.layer.nodes.front(), each.alone_db);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Lowered alone = lowered(detail::all_but(model, i));
    if (detail::is_quantized(alone.report(), model.layers[i]) ||
        !detail::is_quantized(whole.report(), model.layers[i]))
      continue;
    ++only_with_others;
    const std::vector<std::size_t> one{i};
    const double less = error_of(whole) - error_of(lowered(detail::float_nodes(model, one)));
    const double found = alone_db.at(model.layers[i].nodes.front());
    if (less > 0) {
      EXPECT_NEAR(std::pow(10, -found / 10), less, 1e-12) << model.layers[i].to_text();
    } else {
      EXPECT_TRUE(std::isinf(found)) << model.layers[i].to_text();
    }
  }
  EXPECT_GT(only_with_others, 0U) << "nothing is tested";
}

TEST(Sensitivity, FunctionsAreNamedByTheirModuleTypeAndOrder) {
  const Module model = model_with_additions();
  const Prepared prepared = calibrated(model, default_qconfig_mapping());
  const std::vector<QuantizedLayer> layers = quantized_layers(prepared);
  ASSERT_THAT(names(layers), ElementsAre("one", "two", "block", "block", "three"));
  const QConfigMapping mapping = keep_float(default_qconfig_mapping(), std::span(layers).subspan(3, 1));
  EXPECT_TRUE(mapping.module_name_qconfigs().empty());
  ASSERT_EQ(mapping.module_name_object_type_order_qconfigs().size(), 1U);
  EXPECT_EQ(mapping.module_name_object_type_order_qconfigs().front().index, 1);
  const Prepared again = calibrated(model, mapping);
  ASSERT_THAT(float_layers(again), ElementsAre("block"));
  EXPECT_THAT(names(quantized_layers(again)), ElementsAre("one", "two", "block", "three"));
  EXPECT_EQ(QConfigMapping::from_dict(mapping.to_dict()), mapping);
}

TEST(Sensitivity, OperatorsOfATraceHaveNamesThatPyTorchHas) {
  torch::manual_seed(7);
  Module model = testing::user_module("Branches");
  for (const char* name : {"a", "b"}) model.register_module(name, testing::conv2d(3, 8, 3));
  model.register_module("c", testing::conv2d(16, 8, 1));
  model.define(
      "def forward(self, x):\n"
      "  return self.c.forward(torch.cat([torch.relu(self.a.forward(x)), self.b.forward(x) * 0.05], 1))\n");
  model.eval();
  // A trace does not tell how its operators were written.
  const auto graph = torch::jit::toGraphFunction(model.get_method("forward").function()).graph();
  for (torch::jit::Node* node : graph->nodes()) node->setSourceRange(torch::jit::SourceRange());
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend);
  calibrate(prepared, std::vector<Sample>{{torch::randn({2, 3, 8, 8})}});
  const std::vector<QuantizedLayer> layers = quantized_layers(prepared);
  EXPECT_TRUE(std::ranges::any_of(layers, [](const auto& layer) { return !layer.uses.empty(); }));
  const QConfigMapping mapping = keep_float(best_qconfig_mapping("x86"), layers);
  EXPECT_EQ(QConfigMapping::from_dict(mapping.to_dict()), mapping);
  EXPECT_THAT(prepare(model, mapping, backend).report().unmatched_entries, ::testing::IsEmpty());
}

TEST(Sensitivity, CallsOfOneModuleAreOneLayer) {
  torch::manual_seed(4);
  Module model = testing::user_module("Twice");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.define("def forward(self, x):\n  return self.conv.forward(self.conv.forward(x))\n");
  const std::vector<QuantizedLayer> layers = quantized_layers(calibrated(model, default_qconfig_mapping()));
  ASSERT_THAT(names(layers), ElementsAre("conv"));
  EXPECT_EQ(layers.front().nodes.size(), 2U);
}

TEST(Sensitivity, OperatorsOfOneKernelAreOneLayer) {
  torch::manual_seed(4);
  Module model = testing::user_module("Clamped");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.define("def forward(self, x):\n  return torch.relu(torch.add(self.conv.forward(x), x))\n");
  const std::vector<QuantizedLayer> layers = quantized_layers(calibrated(model, default_qconfig_mapping()));
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[1].nodes.size(), 2U);
}

TEST(Sensitivity, OperatorsThatOnlyMoveValuesGoWithTheLayerBeforeThem) {
  torch::manual_seed(4);
  Module model = testing::user_module("Flat");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.register_module("fc", testing::linear(300, 4));
  model.define("def forward(self, x):\n  return self.fc.forward(torch.flatten(self.conv.forward(x), 1))\n");
  const std::vector<QuantizedLayer> layers = quantized_layers(calibrated(model, default_qconfig_mapping()));
  ASSERT_THAT(names(layers), ElementsAre("conv", "fc"));
  EXPECT_THAT(layers[0].module_names, ElementsAre("conv"));
  ASSERT_EQ(layers[0].uses.size(), 1U);
  EXPECT_EQ(layers[0].uses[0].type.name, "torch.flatten");
}

TEST(Sensitivity, DynamicModelsAreRankedToo) {
  torch::manual_seed(6);
  Module model = testing::user_module("Head");
  Module bad = testing::linear(8, 8);
  {
    const at::NoGradGuard no_grad;
    bad.attr("weight").toTensor().select(1, 0).fill_(1000);
  }
  model.register_module("bad", bad);
  model.register_module("good", testing::linear(8, 4));
  model.define("def forward(self, x):\n  return self.good.forward(self.bad.forward(x))\n");
  std::vector<Sample> data;
  for (int i = 0; i < 4; ++i) {
    at::Tensor x = torch::randn({3, 8});
    x.select(1, 0).zero_();
    data.push_back({x});
  }
  const Prepared prepared =
      prepare(model, dynamic_qconfig_mapping(), backend_config("x86"), {.recipe = Recipe::Fx});
  const Sensitivity found = sensitivity(prepared, backend_config("x86"), data);
  ASSERT_EQ(found.layers.size(), 2U);
  EXPECT_EQ(found.layers.front().layer.name, "bad");
}

TEST(Sensitivity, LabelsAreRankedByTheDecisionsThatAreOthers) {
  torch::manual_seed(9);
  torch::jit::Module model = testing::user_module("Labeller");
  model.register_module("first", testing::linear(32, 64));
  model.register_module("second", testing::linear(64, 64));
  model.define(
      "def forward(self, x):\n"
      "  return torch.argmax(self.second.forward(torch.relu(self.first.forward(x))), -1)\n");
  model.eval();
  std::vector<Sample> data;
  for (int i = 0; i < 4; ++i) data.push_back({torch::randn({200, 32})});
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, data);
  const Sensitivity found = sensitivity(prepared, backend, data);
  EXPECT_TRUE(found.is_of_decisions);
  ASSERT_TRUE(found.int8_agreement.has_value());
  ASSERT_LT(*found.int8_agreement, 1);
  EXPECT_NEAR(found.int8_db, -10 * std::log10(1 - *found.int8_agreement), 1e-6);
}

TEST(Sensitivity, StandaloneModulesAreRefused) {
  Module model = testing::user_module("Outer");
  model.register_module("inner", testing::conv_bn_relu());
  model.define("def forward(self, x):\n  return self.inner.forward(x)\n");
  const Prepared prepared = prepare(
      model, default_qconfig_mapping(), backend_config("x86"),
      {.custom = PrepareCustomConfig().set_standalone_module_name("inner", {}), .recipe = Recipe::Fx});
  EXPECT_EQ(
      sentence_of([&] { quantized_layers(prepared); }),
      "layers inside of standalone modules cannot be kept float one by one; remove the standalone modules "
      "from the prepare custom config");
}

TEST(Goal, IsReachedAtOnceWhereInt8IsGoodEnough) {
  const Prepared prepared = calibrated(model_with_additions(), default_qconfig_mapping());
  const GoalSearch found =
      reach_goal(prepared, backend_config("x86"), sqnr_goal(prepared, samples(), 10), samples());
  EXPECT_TRUE(found.reached);
  EXPECT_TRUE(found.kept.empty());
  EXPECT_EQ(found.trials.size(), 1U);
  EXPECT_EQ(found.mapping, default_qconfig_mapping());
}

TEST(Goal, OutOfReachGivesTheBestAndNoModel) {
  const Prepared prepared = calibrated(model_with_a_terrible_layer(), default_qconfig_mapping());
  const AccuracyGoal goal{.measure = "a wish", .at_least = 2, .score = [](const Module&) { return 1; }};
  const GoalSearch found = reach_goal(prepared, backend_config("x86"), goal, samples());
  EXPECT_FALSE(found.reached);
  EXPECT_FALSE(found.reference.has_value());
  EXPECT_EQ(found.score, 1);
  EXPECT_EQ(found.trials.size(), 2U);
}

/// Two outputs, each after a layer that int8 destroys; the first has far more power.
Module model_with_two_outputs() {
  torch::manual_seed(8);
  Module model = testing::user_module("Fork");
  model.register_module("first", with_empty_channel(3, 6));
  model.register_module("loud", terrible(6, 3000));
  model.register_module("quiet", terrible(6, 300));
  model.define(
      "def forward(self, x):\n"
      "  y = self.first.forward(x)\n"
      "  return self.loud.forward(y), self.quiet.forward(y)\n");
  return model;
}

TEST(Goal, LayersThatItDoesNotNeedAreGivenBack) {
  const Module model = model_with_two_outputs();
  const Prepared prepared = calibrated(model, default_qconfig_mapping());
  const std::vector<Sample> data = samples();
  const auto quiet_sqnr = [&](const Module& quantized) {
    const at::NoGradGuard no_grad;
    const at::Tensor wanted = Module(model).forward(data[0]).toTupleRef().elements()[1].toTensor();
    const at::Tensor got = Module(quantized).forward(data[0]).toTupleRef().elements()[1].toTensor();
    return 10 *
           std::log10(wanted.square().sum().item<double>() / (wanted - got).square().sum().item<double>());
  };
  const BackendConfig backend = backend_config("x86");
  const Sensitivity ranking = sensitivity(prepared, backend, data);
  const std::vector<std::string> costly{ranking.layers[0].layer.name, ranking.layers[1].layer.name};
  ASSERT_THAT(costly, UnorderedElementsAre("loud", "quiet"));
  const GoalSearch found =
      reach_goal(prepared, backend, {.measure = "quiet SQNR", .at_least = 20, .score = quiet_sqnr}, data);
  ASSERT_TRUE(found.reached);
  EXPECT_THAT(names(found.kept), ElementsAre("quiet"));
}

TEST(Goal, WhatIsLackingAnewIsAskedForOnTheSamplesOfTheSearch) {
  const Prepared prepared = calibrated(model_with_two_outputs(), default_qconfig_mapping());
  std::size_t confirmed = 0;
  GoalOptions options;
  options.confirm = [&](const QConfigMapping&) { return confirmed++ == 0 ? 9.5 : 10.0; };
  const GoalSearch found =
      reach_goal(prepared, backend_config("x86"), sqnr_goal(prepared, samples(), 10), samples(), options);
  ASSERT_TRUE(found.reached);
  const auto anew = std::ranges::find_if(
      found.trials, [](const GoalTrial& trial) { return trial.what.ends_with("made anew"); });
  ASSERT_NE(anew, found.trials.end());
  // The one that was made anew is the last of those that were enough.
  const auto kept =
      std::ranges::find_if(std::reverse_iterator(anew), found.trials.rend(), &GoalTrial::reached);
  ASSERT_NE(kept, found.trials.rend());
  const double before = kept->score;
  for (auto trial = std::next(anew); trial != found.trials.end(); ++trial) {
    if (trial->what.ends_with("made anew")) continue;
    EXPECT_EQ(trial->reached, trial->score >= before + 0.5) << trial->what;
  }
}

TEST(Goal, TheBestThatWasMadeAnewIsTakenBeforeAllIsFloat) {
  const Prepared prepared = calibrated(model_with_two_outputs(), default_qconfig_mapping());
  const std::size_t layers = quantized_layers(prepared).size();
  std::vector<QConfigMapping> settled;
  GoalOptions options;
  options.confirm = [&](const QConfigMapping&) { return 9.0; };
  options.settle = [&](const QConfigMapping& mapping) {
    settled.push_back(mapping);
    return 10.5;
  };
  const GoalSearch found =
      reach_goal(prepared, backend_config("x86"), sqnr_goal(prepared, samples(), 10), samples(), options);
  ASSERT_TRUE(found.reached);
  EXPECT_LT(found.kept.size(), layers);
  EXPECT_EQ(found.score, 10.5);
  ASSERT_EQ(settled.size(), 1U);
  EXPECT_EQ(settled.front(), found.mapping);
}

TEST(Goal, MoreStaysFloatUntilTheModelMadeAnewHoldsIt) {
  const Prepared prepared = calibrated(model_with_two_outputs(), default_qconfig_mapping());
  std::vector<QConfigMapping> confirmed;
  GoalOptions options;
  options.confirm = [&](const QConfigMapping& mapping) {
    confirmed.push_back(mapping);
    return confirmed.size() < 2 ? 9.0 : 11.0;
  };
  const GoalSearch found =
      reach_goal(prepared, backend_config("x86"), sqnr_goal(prepared, samples(), 10), samples(), options);
  ASSERT_TRUE(found.reached);
  EXPECT_EQ(found.score, 11);
  ASSERT_EQ(confirmed.size(), 2U);
  EXPECT_EQ(confirmed.back(), found.mapping);
  std::vector<std::size_t> float_layers;
  for (const GoalTrial& trial : found.trials) {
    if (trial.what.ends_with("made anew")) float_layers.push_back(trial.float_layers);
  }
  ASSERT_EQ(float_layers.size(), 2U);
  EXPECT_LT(float_layers[0], float_layers[1]);
}

TEST(Goal, OutOfReachWhereNoModelMadeAnewHoldsIt) {
  const Prepared prepared = calibrated(model_with_two_outputs(), default_qconfig_mapping());
  GoalOptions options;
  options.confirm = [](const QConfigMapping&) { return 9.0; };
  EXPECT_FALSE(
      reach_goal(prepared, backend_config("x86"), sqnr_goal(prepared, samples(), 10), samples(), options)
          .reached);
}

TEST(Goal, AgreementNeedsDecisions) {
  const Prepared prepared = calibrated(model_with_additions(), default_qconfig_mapping());
  const AccuracyGoal goal = agreement_goal(prepared, samples(), 0.9);
  const std::string sentence =
      sentence_of([&] { reach_goal(prepared, backend_config("x86"), goal, samples()); });
  EXPECT_THAT(sentence, HasSubstr("no output is judged as decisions (output: "));
  EXPECT_THAT(sentence, HasSubstr("name one by --decisions, or give the goal as an SQNR or by a program"));
}

TEST(Goal, AReferenceFileRemembersWhatStaysFloat) {
  const BackendConfig backend = backend_config("x86");
  const Setting setting{Recipe::Fx, "x86"};
  const Prepared prepared = calibrated(model_with_a_terrible_layer(), mapping_for(setting), setting);
  const AccuracyGoal goal = sqnr_goal(prepared, samples(), 25);
  const GoalSearch found = reach_goal(prepared, backend, goal, samples());
  const testing::TemporaryFolder folder;
  const std::string file = folder.file("reference.pt");
  found.reference->save(file);
  EXPECT_EQ(goal.score(lower(Reference::load(file), backend)), found.score);
  EXPECT_EQ(read_metadata(file)["kept_float"].size(), 1U);
}

TEST(Goal, TheReportSaysWhyALayerIsFloat) {
  const BackendConfig backend = backend_config("x86");
  const Prepared prepared = calibrated(model_with_a_terrible_layer(), default_qconfig_mapping());
  const GoalSearch found = reach_goal(prepared, backend, sqnr_goal(prepared, samples(), 25), samples());
  Report report;
  testing::lowered(*found.reference, backend, &report);
  for (const Decision& decision : report.decisions) {
    EXPECT_EQ(decision.quantized, decision.layer != "bad") << decision.layer;
    if (decision.layer == "bad") {
      EXPECT_EQ(decision.reason, "kept float to preserve the model's accuracy");
    }
  }
}

}  // namespace sensitivity_test
}  // namespace tsq
