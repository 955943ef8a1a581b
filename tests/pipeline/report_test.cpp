// The decision report: what it says of each reason to stay float, and what an operator costs.

#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/measure_operators.h>
#include <tsq/quantize.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/lowered.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"

namespace tsq {
namespace report_test {

using ::testing::HasSubstr;
using torch::jit::Module;

Module convs(const std::vector<std::string>& names) {
  torch::manual_seed(3);
  Module model = testing::user_module("Convs");
  std::string calls = "x";
  for (const std::string& name : names) {
    model.register_module(name, testing::conv2d(3, 3, 1));
    calls = "self." + name + ".forward(" + calls + ")";
  }
  model.define("def forward(self, x):\n  return " + calls + "\n");
  return model;
}

Module function_of(const std::string& body) {
  Module model = testing::user_module("Function");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.define("def forward(self, x):\n" + body);
  return model;
}

Report lowered_report(const Module& model, const QConfigMapping& mapping,
                      const PrepareCustomConfig& custom = {}) {
  const BackendConfig backend = backend_config("x86");
  // Whether 16-bit sums overflow is no matter of these tests.
  Prepared prepared = prepare(model, mapping, backend,
                              {.custom = custom, .recipe = Recipe::Fx, .target_cpu = TargetCpu::Vnni});
  const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}};
  calibrate(prepared, samples);
  Report report;
  testing::lowered(convert_to_reference(prepared, backend), backend, &report);
  measure_operators(prepared, samples.front(), /*rounds=*/0, report);
  return report;
}

const Decision& decision_of(const Report& report, const std::string& layer_or_op) {
  const auto found = std::find_if(report.decisions.begin(), report.decisions.end(), [&](const Decision& d) {
    return d.layer == layer_or_op || d.op == layer_or_op;
  });
  EXPECT_NE(found, report.decisions.end()) << layer_or_op << "\n" << report.to_text();
  static const Decision kNothing;
  return found == report.decisions.end() ? kNothing : *found;
}

QConfigMapping x86_with(const std::string& module, const QConfig& qconfig) {
  return default_qconfig_mapping("x86").set_module_name(module, qconfig);
}

TEST(Report, NamesTheLevelOfTheMappingThatSaysNone) {  // B-04 … B-09
  QConfigMapping mapping = default_qconfig_mapping("x86");
  mapping.set_module_name("name", std::nullopt).set_module_name_regex("re.*", std::nullopt);
  mapping.set_module_name_object_type_order("", symbol("torch.nn.Conv2d"), 2, std::nullopt);
  const Report report = lowered_report(convs({"name", "regex", "order", "taken"}), mapping);
  EXPECT_EQ(decision_of(report, "name").qconfig_source, "module name 'name'");
  EXPECT_THAT(decision_of(report, "name").remedy, HasSubstr("module name 'name'"));
  EXPECT_EQ(decision_of(report, "regex").qconfig_source, "module name regex 're.*'");
  EXPECT_THAT(decision_of(report, "order").qconfig_source, HasSubstr("order"));
  EXPECT_FALSE(decision_of(report, "order").quantized);
  EXPECT_EQ(decision_of(report, "taken").qconfig_source, "global");
  EXPECT_EQ(decision_of(report, "taken").kernel, "quantized::conv2d");
}

TEST(Report, NamesTheObjectTypeAndTheGlobalLevelThatSayNone) {  // B-05, B-06
  QConfigMapping mapping = default_qconfig_mapping("x86");
  mapping.set_object_type("torch.nn.Conv2d", std::nullopt);
  EXPECT_EQ(decision_of(lowered_report(convs({"a"}), mapping), "a").qconfig_source,
            "object type 'torch.nn.Conv2d'");
  EXPECT_THAT(decision_of(lowered_report(convs({"a"}), {}), "a").remedy, HasSubstr("torch.nn.Conv2d"));
}

TEST(Report, ARefusedDTypeSaysWhichDTypesWereTriedAndWhichToTake) {  // D-05
  QConfig qconfig = default_qconfig("x86");
  qconfig.activation.dtype = c10::ScalarType::QInt8;
  qconfig.activation.reduce_range.reset();
  const Report report = lowered_report(convs({"a"}), x86_with("a", qconfig));
  const Decision& decision = decision_of(report, "a");
  ASSERT_EQ(decision.dtype_configs.size(), decision.refusals.size());
  EXPECT_THAT(decision.dtype_configs.front(), HasSubstr("input quint8"));
  EXPECT_EQ(decision.remedy, "give its activation observer dtype quint8");
}

TEST(Report, ADynamicQConfigAmongStaticConfigsSaysSo) {  // D-05
  QConfig qconfig = default_qconfig("x86");
  qconfig.activation =
      ObserverSpec{.observer = "PlaceholderObserver", .dtype = c10::ScalarType::QUInt8, .is_dynamic = true};
  const Decision decision = decision_of(lowered_report(convs({"a"}), x86_with("a", qconfig)), "a");
  EXPECT_THAT(decision.reason, HasSubstr("the qconfig is dynamic"));
  EXPECT_THAT(decision.remedy, HasSubstr("static qconfig"));
}

TEST(Report, AFixedQParamsConstraintIsNamedInTheRemedy) {  // D-15
  const Module model = function_of("  return torch.sigmoid(self.conv.forward(x))\n");
  QConfigMapping mapping = default_qconfig_mapping("x86");
  mapping.set_object_type("torch.sigmoid", default_qconfig("x86"));
  mapping.set_object_type("sigmoid", default_qconfig("x86"));
  const Decision decision = decision_of(lowered_report(model, mapping), "aten::sigmoid");
  EXPECT_THAT(decision.remedy, HasSubstr("FixedQParamsObserver with scale 0.00390625 and zero point 0"));
}

TEST(Report, AWeightDTypeThatNoConfigTakesSaysWhichToTake) {  // D-11
  QConfig qconfig = default_qconfig("x86");
  qconfig.weight = ObserverSpec{.observer = "MinMaxObserver", .dtype = c10::ScalarType::QUInt8};
  const Decision decision = decision_of(lowered_report(convs({"a"}), x86_with("a", qconfig)), "a");
  EXPECT_FALSE(decision.quantized);
  EXPECT_THAT(decision.remedy, HasSubstr("give its weight observer dtype qint8"));
}

TEST(Report, WorkWithSmallWeightsIsNotCountedAsInt8) {
  Report report;
  report.decisions = {
      {.quantized = true, .macs = 60}, {.quantized = true, .weights = "4-bit", .macs = 30}, {.macs = 10}};
  const Totals sums = totals(report);
  EXPECT_EQ(sums.int8_macs, 60);
  EXPECT_DOUBLE_EQ(sums.quantized_macs_share(), 0.9);
  EXPECT_EQ(sums.macs_text("the work"), "60.0 % of the work in int8, 30.0 % with 4-bit weights");
  EXPECT_EQ(report.to_json()["summary"]["small_weight_macs"]["4-bit"], 30);
}

TEST(Report, AnOperatorOnlyOtherBackendsHaveARowForNamesThem) {
  Module model = testing::user_module("Normed");
  model.register_module("norm", testing::layer_norm(8));
  model.define("def forward(self, x):\n  return self.norm.forward(x)\n");
  const Decision decision = decision_of(lowered_report(model, default_qconfig_mapping("x86")), "norm");
  EXPECT_THAT(decision.other_backends, ::testing::ElementsAre("onednn"));
  EXPECT_THAT(decision.remedy, HasSubstr("try --backend onednn"));
}

TEST(Report, AnOperatorWithoutRowNamesAStandIn) {
  const Module model = function_of("  return torch.silu(self.conv.forward(x))\n");
  const Decision decision = decision_of(lowered_report(model, default_qconfig_mapping("x86")), "aten::silu");
  EXPECT_THAT(decision.reason, HasSubstr("no pattern of backend 'x86'"));
  EXPECT_THAT(decision.remedy, HasSubstr("torch.nn.Hardswish"));
}

TEST(Report, AnAdditionWithAlphaSaysWhyNoKernelTakesIt) {  // L-13
  const Module model =
      function_of("  y = self.conv.forward(x)\n  return self.conv.forward(torch.add(y, y, alpha=2))\n");
  const Decision decision = decision_of(lowered_report(model, default_qconfig_mapping("x86")), "aten::add");
  EXPECT_FALSE(decision.quantized);
  EXPECT_THAT(decision.reason, HasSubstr("no alpha"));
  EXPECT_THAT(decision.remedy, HasSubstr("multiply"));
}

TEST(Report, AnOperatorOfTheHostProgramSaysThatItIsOne) {
  static const auto kTwice = torch::RegisterOperators().op(
      "tsq_report_test::twice(Tensor x) -> Tensor", [](const at::Tensor& x) { return at::Tensor(x * 2); });
  const Module model = function_of("  return self.conv.forward(torch.neg(self.conv.forward(x)))\n");
  const auto graph = model.get_method("forward").graph();
  for (torch::jit::Node* node : graph->nodes()) {
    if (node->kind() != c10::aten::neg) continue;
    torch::jit::Node* made =
        graph->create(c10::Symbol::fromQualString("tsq_report_test::twice"), node->inputs(), 1);
    made->insertBefore(node);
    node->output()->replaceAllUsesWith(made->output());
    node->destroy();
    break;
  }
  const Report report = lowered_report(model, default_qconfig_mapping("x86"));
  const Decision& twice = decision_of(report, "tsq_report_test::twice");
  EXPECT_FALSE(twice.quantized);
  EXPECT_THAT(twice.reason, HasSubstr("operator of the host program"));
  EXPECT_FALSE(twice.remedy.empty());
}

TEST(Report, SizesAndNumbersAreNoFloatOperators) {  // D-02
  const Module model =
      function_of("  y = self.conv.forward(x)\n  return torch.reshape(y, [y.size(0), -1])\n");
  const Report report = lowered_report(model, default_qconfig_mapping("x86"));
  EXPECT_FALSE(decision_of(report, "aten::size").on_tensors);
  EXPECT_EQ(report.to_json()["summary"]["without_tensors"], 1);
}

TEST(Report, AConvolutionReadTwiceHasANoteAboutFusion) {  // C-05
  const Report report = lowered_report(testing::conv_relu_with_skip(), default_qconfig_mapping("x86"));
  const bool has_note = std::any_of(report.decisions.begin(), report.decisions.end(),
                                    [](const Decision& d) { return !d.notes.empty() && d.quantized; });
  EXPECT_TRUE(has_note) << report.to_text();
}

TEST(Report, OperatorsOfStandaloneModulesHaveTheirOwnKernelsAndCosts) {  // E-01
  torch::manual_seed(3);
  Module model = testing::user_module("Outer");
  model.register_module("before", testing::conv2d(3, 3, 1));
  model.register_module("inner", testing::conv_bn_relu());
  model.define("def forward(self, x):\n  return self.inner.forward(self.before.forward(x))\n");
  const PrepareCustomConfig custom = PrepareCustomConfig().set_standalone_module_name("inner", {});
  const Report report = lowered_report(model, default_qconfig_mapping("x86"), custom);
  const auto inside = std::find_if(report.decisions.begin(), report.decisions.end(),
                                   [](const Decision& d) { return d.standalone == "inner"; });
  ASSERT_NE(inside, report.decisions.end());
  EXPECT_EQ(inside->kernel, "quantized::conv2d_relu");
  EXPECT_GT(inside->macs.value_or(0), 0);
}

TEST(Report, AValueThatGoesRoundALoopHasANote) {
  Module model = testing::user_module("Loop");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.define(
      "def forward(self, x, n: int = 2):\n  for i in range(n):\n    x = self.conv.forward(x)\n  return x\n");
  const Report report = lowered_report(model, default_qconfig_mapping("x86"));
  const Decision& conv = decision_of(report, "conv");
  EXPECT_TRUE(conv.quantized);
  ASSERT_EQ(conv.notes.size(), 1u);
  EXPECT_THAT(conv.notes.front(), HasSubstr("goes around the loop in float"));
}

TEST(Report, AnOperatorThatNoSampleReachesStaysFloatAndSaysWhy) {
  Module model = testing::user_module("Branch");
  for (const char* name : {"conv", "rare"}) model.register_module(name, testing::conv2d(3, 3, 1));
  model.define(
      "def forward(self, x, n: int = 2):\n  x = self.conv.forward(x)\n  if n > 5:\n    x = "
      "self.rare.forward(x)\n"
      "  return x\n");
  const Report report = lowered_report(model, default_qconfig_mapping("x86"));
  EXPECT_FALSE(decision_of(report, "rare").quantized);
  EXPECT_THAT(decision_of(report, "rare").reason, HasSubstr("no calibration sample reached it"));
  EXPECT_TRUE(decision_of(report, "conv").quantized);
  EXPECT_TRUE(decision_of(report, "conv").notes.empty());
}

Module with_integers() {
  torch::manual_seed(3);
  Module model = testing::user_module("Integers");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.define(
      "def forward(self, x):\n  n = torch.add(torch.argmax(x, 1, True), 1)\n"
      "  return self.conv.forward(x) * torch.cat([n, n, n], 1)\n");
  return model;
}

TEST(Report, IntegerTensorsStayAsTheyAre) {
  const Report report = lowered_report(with_integers(), default_qconfig_mapping("x86"));
  EXPECT_THAT(decision_of(report, "aten::add").reason, HasSubstr("integers"));
  EXPECT_THAT(decision_of(report, "aten::cat").reason, HasSubstr("integers"));
  EXPECT_TRUE(decision_of(report, "conv").quantized);
}

TEST(Report, AModelThatComputesWithIntegersRuns) {
  const Module model = with_integers();
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}};
  calibrate(prepared, samples);
  Module quantized = convert(prepared, backend);
  Module original = model;
  const at::Tensor wanted = original.forward({samples[0][0]}).toTensor();
  const at::Tensor error = quantized.forward({samples[0][0]}).toTensor() - wanted;
  EXPECT_LT(error.abs().max().item<float>(), 0.05 * wanted.abs().max().item<float>());
}

UnmatchedEntry only_unmatched(const Module& model, const QConfigMapping& mapping) {
  const auto entries =
      prepare(model, mapping, backend_config("x86"), {.recipe = Recipe::Fx}).report().unmatched_entries;
  EXPECT_EQ(entries.size(), 1u);
  return entries.empty() ? UnmatchedEntry{} : entries.front();
}

QConfigMapping default_mapping() { return default_qconfig_mapping("x86"); }

TEST(Report, EntriesOfDefaultMappingsAreNotLookedFor) {
  for (const char* backend : {"x86", "qnnpack"}) {
    EXPECT_TRUE(
        prepare(convs({"a"}), default_qconfig_mapping(backend), backend_config("x86"), {.recipe = Recipe::Fx})
            .report()
            .unmatched_entries.empty());
  }
}

TEST(Report, AMisspeltModuleNameComesWithTheNearestOnes) {
  const auto entry =
      only_unmatched(convs({"first", "second"}), default_mapping().set_module_name("frist", std::nullopt));
  EXPECT_EQ(entry.level, "module name");
  EXPECT_THAT(entry.nearest, ::testing::ElementsAre("first"));
  EXPECT_EQ(entry.to_text(),
            "module name 'frist' of the qconfig mapping matches no operator; did you mean 'first'?");
}

TEST(Report, ANameThatIsFarTooLongIsComparedWithNone) {
  const std::string name(3'000'000, 'f');
  const auto entry = only_unmatched(convs({"first"}), default_mapping().set_module_name(name, std::nullopt));
  EXPECT_EQ(entry.entry, name);
  EXPECT_THAT(entry.nearest, ::testing::IsEmpty());
}

TEST(Report, AnEntryForAModuleThatIsFusedSaysIntoWhich) {
  const auto by_name =
      only_unmatched(testing::conv_bn_relu(), default_mapping().set_module_name("bn", std::nullopt));
  EXPECT_EQ(by_name.reason, "it is fused into 'conv', whose entry applies");
  const auto by_type = only_unmatched(
      testing::conv_bn_relu(), default_mapping().set_object_type("torch.nn.BatchNorm2d", std::nullopt));
  EXPECT_THAT(by_type.reason, HasSubstr("fused into another operator, such as 'conv'"));
}

TEST(Report, ARegexThatMatchesFurtherOnSaysHowToBegin) {
  Module outer = testing::user_module("Outer");
  outer.register_module("body", convs({"first"}));
  outer.define("def forward(self, x):\n  return self.body.forward(x)\n");
  const auto entry = only_unmatched(outer, default_mapping().set_module_name_regex("fir.*", std::nullopt));
  EXPECT_THAT(entry.reason, HasSubstr("begin it with '.*'"));
  EXPECT_TRUE(prepare(outer, default_mapping().set_module_name_regex("body", std::nullopt),
                      backend_config("x86"), {.recipe = Recipe::Fx})
                  .report()
                  .unmatched_entries.empty());
}

TEST(Report, AnOrderThatIsTooHighSaysHowManyUsesThereAre) {
  const auto entry = only_unmatched(convs({"a", "b"}), default_mapping().set_module_name_object_type_order(
                                                           "", symbol("torch.nn.Conv2d"), 2, std::nullopt));
  EXPECT_THAT(entry.reason, HasSubstr("uses torch.nn.Conv2d 2 times"));
}

TEST(Report, AnEntryThatAnotherLevelOverridesHasItsMatch) {
  QConfigMapping mapping = default_mapping();
  mapping.set_object_type("torch.nn.Conv2d", default_qconfig("fbgemm")).set_module_name("a", std::nullopt);
  EXPECT_TRUE(prepare(convs({"a"}), mapping, backend_config("x86"), {.recipe = Recipe::Fx})
                  .report()
                  .unmatched_entries.empty());
}

TEST(Report, CountsMultiplyAccumulatesOfAConvolution) {
  const Report report =
      lowered_report(convs({"a", "b"}), default_qconfig_mapping("x86").set_module_name("b", std::nullopt));
  EXPECT_EQ(decision_of(report, "a").macs, 2 * 3 * 8 * 8 * 3);
  EXPECT_DOUBLE_EQ(report.to_json()["summary"]["int8_macs_share"].get<double>(), 0.5);
  EXPECT_THAT(report.to_text(), HasSubstr("50.0 %"));
}

TEST(Report, MeasuringLeavesTheObserversAsTheyWere) {
  const Module model = convs({"a"});
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}};
  calibrate(prepared, samples);
  const auto result = [&] {
    Module module = convert(prepared, backend);
    return module.forward({samples[0][0]}).toTensor();
  };
  const at::Tensor before = result();
  Report report = prepared.report();
  measure_operators(prepared, {samples[0][0].toTensor() * 100}, /*rounds=*/2, report);
  EXPECT_TRUE(at::equal(before, result()));
  EXPECT_GT(decision_of(report, "a").seconds.value_or(0), 0);
}

/// Whether the 16-bit sums of a layer or operator can overflow, by the notes of its report.
std::vector<std::string> notes_on_sums(const Module& model, const std::string& layer_or_op,
                                       const at::Tensor& input, Recipe recipe, TargetCpu cpu) {
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend,
                              {.recipe = recipe, .target_cpu = cpu, .machine = testing::slow_in_float()});
  calibrate(prepared, std::vector<Sample>{{input}});
  return notes_of(decision_of(convert_to_reference(prepared, backend).report(), layer_or_op));
}

/// Those of a linear layer with these weights.
std::vector<std::string> notes_on_sums(const at::Tensor& weight, Recipe recipe, TargetCpu cpu) {
  Module model = testing::user_module("Linear");
  Module linear = testing::linear(weight.size(1), weight.size(0));
  linear.setattr("weight", weight);
  model.register_module("fc", linear);
  model.define("def forward(self, x):\n  return self.fc.forward(x)\n");
  return notes_on_sums(model, "fc", torch::randn({4, weight.size(1)}), recipe, cpu);
}

TEST(PairSums, TheReportSaysWhetherTheyCanOverflow) {
  using ::testing::Contains;
  // One weight of each channel has the code 127, the others are small or as large.
  at::Tensor one = torch::full({4, 8}, 0.001);
  one.select(1, 0).fill_(1);
  const at::Tensor many = torch::ones({4, 8});
  EXPECT_THAT(notes_on_sums(one, Recipe::Fx, TargetCpu::WithoutVnni), Contains(HasSubstr("cannot overflow")));
  // PyTorch's activations have 7 bits: 254 * 127 fits, 254 * 255 does not.
  EXPECT_THAT(notes_on_sums(many, Recipe::Fx, TargetCpu::WithoutVnni),
              Contains(HasSubstr("outside of the calibrated range alone")));
  EXPECT_THAT(notes_on_sums(many, Recipe::Best, TargetCpu::WithoutVnni),
              ::testing::AllOf(Contains(HasSubstr("4 of 4 channels have larger scales")),
                               Contains(HasSubstr("cannot overflow"))));
  EXPECT_THAT(notes_on_sums(many, Recipe::Fx, TargetCpu::Vnni),
              ::testing::Not(Contains(HasSubstr("16-bit"))));
}

TEST(PairSums, NothingIsSaidOfLayersThatStayFloat) {
  Module model = testing::user_module("Linears");
  for (const char* name : {"int8", "kept"}) {
    Module linear = testing::linear(8, 8);
    linear.setattr("weight", torch::ones({8, 8}));
    model.register_module(name, linear);
  }
  model.define("def forward(self, x):\n  return self.kept.forward(self.int8.forward(x))\n");
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend,
                              {.recipe = Recipe::Fx, .target_cpu = TargetCpu::WithoutVnni});
  calibrate(prepared, std::vector<Sample>{{torch::randn({4, 8})}});
  const Reference reference = convert_to_reference(prepared, backend);
  const std::string node = decision_of(reference.report(), "kept").node;
  const Report report = lower(reference, backend, {.kept_reference = {{node, "a test keeps it"}}}).report();
  EXPECT_TRUE(decision_of(report, "int8").may_saturate);
  EXPECT_THAT(notes_of(decision_of(report, "int8")), ::testing::Contains(HasSubstr("16-bit sums")));
  EXPECT_FALSE(decision_of(report, "kept").quantized);
  EXPECT_THAT(notes_of(decision_of(report, "kept")),
              ::testing::Not(::testing::Contains(HasSubstr("16-bit sums"))));
}

TEST(PairSums, RecipeBestBoundsThemInFunctionsToo) {
  using ::testing::Contains;
  Module model = testing::user_module("Function");
  model.register_parameter("weight", torch::ones({4, 8, 1}), /*is_buffer=*/false);
  model.define("def forward(self, x):\n  return torch.conv1d(x, self.weight)\n");
  const auto notes = [&](Recipe recipe, TargetCpu cpu) {
    return notes_on_sums(model, "aten::conv1d", torch::randn({4, 8, 5}), recipe, cpu);
  };
  EXPECT_THAT(notes(Recipe::Fx, TargetCpu::WithoutVnni), Contains(HasSubstr("can overflow")));
  EXPECT_THAT(notes(Recipe::Best, TargetCpu::WithoutVnni),
              ::testing::AllOf(Contains(HasSubstr("4 of 4 channels have larger scales")),
                               Contains(HasSubstr("cannot overflow"))));
  EXPECT_THAT(notes(Recipe::Best, TargetCpu::Vnni), ::testing::Not(Contains(HasSubstr("16-bit"))));
}

}  // namespace report_test
}  // namespace tsq
