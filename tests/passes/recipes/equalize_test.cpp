#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include "ir/analysis.h"
#include "pipeline/stage.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace equalize_test {

using torch::jit::Module;

EqualizationMapping everything() { return EqualizationMapping().set_global(default_equalization_qconfig()); }

QConfigMapping min_max() { return QConfigMapping().set_global(qconfig("default_qconfig")); }

Module chain(const std::string& name, const std::vector<std::pair<std::string, Module>>& layers) {
  Module model = testing::user_module(name);
  std::string value = "x";
  for (const auto& [path, layer] : layers) {
    model.register_module(path, layer);
    value = "self." + path + ".forward(" + value + ")";
  }
  model.define("def forward(self, x):\n  return " + value + "\n");
  return model;
}

Module two_linears() {
  return chain("TwoLinears", {{"fc1", testing::linear(5, 8)}, {"fc2", testing::linear(8, 4)}});
}

/// The classes of the observers in graph order.
std::vector<std::string> observers_of(const Prepared& prepared) {
  std::vector<std::string> result;
  const ir::Model& model = detail::stage_of(prepared).model;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_observer(node)) result.push_back(model.observers[ir::observer_index(node)].spec.observer);
  }
  return result;
}

std::size_t count_of(const Reference& reference, c10::Symbol kind) {
  std::size_t count = 0;
  for (const ir::Node* node : ir::nodes_in_order(*detail::stage_of(reference).model.graph))
    count += node->kind() == kind;
  return count;
}

const ir::Weighted& weighted(const Reference& reference, const std::string& path) {
  for (const ir::ModuleCall& call : detail::stage_of(reference).model.calls) {
    if (call.path == path && ir::weighted_of(call) != nullptr) return *ir::weighted_of(call);
  }
  throw std::runtime_error("no layer " + path);
}

const Decision& decision(const Report& report, const std::string& layer) {
  for (const Decision& each : report.decisions) {
    if (each.layer == layer) return each;
  }
  throw std::runtime_error("no decision about " + layer);
}

Prepared calibrated(const Module& model, const at::Tensor& x, const EqualizationMapping& equalization,
                    const QConfigMapping& mapping = min_max()) {
  Prepared prepared =
      prepare(model, mapping, backend_config("x86"), {.equalization = equalization, .recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{x}});
  return prepared;
}

Reference reference_of(const Module& model, const at::Tensor& x, const EqualizationMapping& equalization,
                       const QConfigMapping& mapping = min_max()) {
  return convert_to_reference(calibrated(model, x, equalization, mapping), backend_config("x86"));
}

at::Tensor scale_of(const at::Tensor& x, const at::Tensor& weight) {
  return ((weight.amax(0) - weight.amin(0)) / (x.amax(0) - x.amin(0))).sqrt();
}

/// Decibels of `wanted` over the difference.
double sqnr(const at::Tensor& wanted, const at::Tensor& got) {
  return 10 * std::log10((wanted.square().sum() / (wanted - got).square().sum()).item<double>());
}

TEST(Equalize, TheEqualizationObserverStandsAfterTheQuantizationObserver) {
  const Prepared prepared = prepare(two_linears(), min_max(), backend_config("x86"),
                                    {.equalization = everything(), .recipe = Recipe::Fx});
  EXPECT_EQ(observers_of(prepared),
            (std::vector<std::string>{"MinMaxObserver", "_InputEqualizationObserver", "MinMaxObserver",
                                      "_InputEqualizationObserver", "MinMaxObserver"}));
  EXPECT_EQ(decision(prepared.report(), "fc1").equalization, "equalized");
}

TEST(Equalize, NothingIsEqualizedUnlessAsked) {
  const Prepared prepared = prepare(two_linears(), min_max(), backend_config("x86"), {.recipe = Recipe::Fx});
  EXPECT_EQ(observers_of(prepared), std::vector<std::string>(3, "MinMaxObserver"));
  EXPECT_EQ(decision(prepared.report(), "fc1").equalization, "");
}

TEST(Equalize, LayersOfABranchAreSkippedAndSaySo) {
  Module model = testing::user_module("Branch");
  model.register_module("a", testing::conv2d(3, 3, 3));
  model.register_module("b", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  return self.a.forward(x), self.b.forward(x)\n");
  const Prepared prepared =
      prepare(model, min_max(), backend_config("x86"), {.equalization = everything(), .recipe = Recipe::Fx});
  EXPECT_EQ(observers_of(prepared), std::vector<std::string>(3, "MinMaxObserver"));
  EXPECT_EQ(decision(prepared.report(), "a").equalization,
            "not equalized: it is part of a branch, and 'b' reads the same tensor");
}

TEST(Equalize, AReaderThatStaysFloatIsNoBranch) {
  Module model = testing::user_module("FloatReader");
  model.register_module("a", testing::conv2d(3, 3, 3));
  model.register_module("b", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  return self.a.forward(x), self.b.forward(x)\n");
  const Prepared prepared =
      prepare(model, min_max().set_module_name("b", std::nullopt), backend_config("x86"),
              {.equalization = everything(), .recipe = Recipe::Fx});
  EXPECT_EQ(decision(prepared.report(), "a").equalization, "equalized");
  EXPECT_EQ(decision(prepared.report(), "b").equalization, "not equalized: it is not quantized");
}

TEST(Equalize, TheScaleIsMultipliedAtTheInputAndAbsorbedBetweenLayers) {
  torch::manual_seed(1);
  const Module model = two_linears();
  const at::Tensor x = torch::randn({16, 5}) * torch::tensor({1.0, 10.0, 0.1, 1.0, 3.0});
  const at::Tensor w1 = model.attr("fc1").toModule().attr("weight").toTensor().detach();
  const at::Tensor b1 = model.attr("fc1").toModule().attr("bias").toTensor().detach();
  const at::Tensor w2 = model.attr("fc2").toModule().attr("weight").toTensor().detach();
  const Reference reference = reference_of(model, x, everything());
  EXPECT_EQ(count_of(reference, c10::aten::mul), 1u);
  const at::Tensor s1 = scale_of(x, w1);
  const at::Tensor s2 = scale_of(at::linear(x, w1, b1), w2);
  EXPECT_TRUE(at::allclose(weighted(reference, "fc1").weight, w1 / s1 * s2.unsqueeze(1)));
  EXPECT_TRUE(at::allclose(weighted(reference, "fc1").bias, b1 * s2));
  EXPECT_TRUE(at::allclose(weighted(reference, "fc2").weight, w2 / s2));
}

TEST(Equalize, ALayerAfterOneThatIsNotEqualizedGetsAMultiplication) {
  torch::manual_seed(2);
  const Module model = two_linears();
  const at::Tensor x = torch::randn({16, 5});
  const at::Tensor w1 = model.attr("fc1").toModule().attr("weight").toTensor().detach();
  EqualizationMapping second = everything();
  second.set_module_name("fc1", std::nullopt);
  const Reference reference = reference_of(model, x, second);
  EXPECT_EQ(count_of(reference, c10::aten::mul), 1u);
  EXPECT_TRUE(at::equal(weighted(reference, "fc1").weight, w1));
  Module run = reference.module();
  Module original = model;
  EXPECT_GT(sqnr(original.forward({x}).toTensor(), run.forward({x}).toTensor()), 25);
}

TEST(Equalize, AnEqualizedModelIsNearerToFloatWhenChannelsDiffer) {
  torch::manual_seed(3);
  const Module model = chain("OneLinear", {{"fc", testing::linear(16, 8)}});
  const at::Tensor x = torch::randn({64, 16}) * torch::logspace(-2, 1, 16);
  Module original = model;
  const at::Tensor wanted = original.forward({x}).toTensor();
  // The weight of the channel that is ten times as wide is as small.
  const auto of = [&](const EqualizationMapping& mapping) {
    Module run = reference_of(model, x, mapping).module();
    return sqnr(wanted, run.forward({x}).toTensor());
  };
  EXPECT_GT(of(everything()), of({}));
}

TEST(Equalize, AGroupedConvolutionIsSkippedAndSaysWhy) {
  Module conv = testing::conv2d(4, 4, 3);
  conv.setattr("groups", int64_t{2});
  conv.setattr("weight", torch::randn({4, 2, 3, 3}));
  const Module model = chain("Grouped", {{"conv", conv}});
  const Prepared prepared =
      prepare(model, min_max(), backend_config("x86"), {.equalization = everything(), .recipe = Recipe::Fx});
  EXPECT_EQ(decision(prepared.report(), "conv").equalization,
            "not equalized: the channels of a grouped convolution's input and weight do not correspond");
}

TEST(Equalize, TheMultiplicationIsInFrontOfTheObserverWhichTakesTheScaledRange) {
  torch::manual_seed(4);
  const Module model = chain("OneLinear", {{"fc", testing::linear(5, 8)}});
  const at::Tensor x = torch::randn({16, 5}) * 3;
  const at::Tensor weight = model.attr("fc").toModule().attr("weight").toTensor().detach();
  const Reference reference = reference_of(model, x, everything());
  const at::Tensor scaled = x * scale_of(x, weight);
  for (const ir::Node* node : ir::nodes_in_order(*detail::stage_of(reference).model.graph)) {
    if (node->kind() != c10::Symbol::fromQualString("aten::quantize_per_tensor")) continue;
    EXPECT_EQ(node->input(0)->node()->kind(), c10::aten::mul);
    // default_qconfig has codes from 0 to 127.
    EXPECT_NEAR(torch::jit::toIValue(node->input(1))->toDouble(),
                (scaled.max() - scaled.min()).item<double>() / 127, 1e-6);
    break;
  }
}

TEST(Equalize, AResultThatIsAlsoReturnedIsNotScaled) {
  torch::manual_seed(6);
  Module model = testing::user_module("Returned");
  model.register_module("fc1", testing::linear(5, 8));
  model.register_module("fc2", testing::linear(8, 4));
  model.define("def forward(self, x):\n  y = self.fc1.forward(x)\n  return self.fc2.forward(y), y\n");
  const at::Tensor x = torch::randn({16, 5});
  Module run = reference_of(model, x, everything()).module();
  const auto wanted = model.forward({x}).toTuple()->elements().vec();
  const auto got = run.forward({x}).toTuple()->elements().vec();
  EXPECT_GT(sqnr(wanted[0].toTensor(), got[0].toTensor()), 25);
  EXPECT_GT(sqnr(wanted[1].toTensor(), got[1].toTensor()), 25);
}

TEST(Equalize, ASavedStageGoesOn) {
  torch::manual_seed(5);
  const at::Tensor x = torch::randn({16, 5});
  const Prepared prepared = calibrated(two_linears(), x, everything());
  const Reference reference = convert_to_reference(prepared, backend_config("x86"));
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("stage.pt");
  Module direct = reference.module();
  const at::Tensor wanted = direct.forward({x}).toTensor();
  prepared.save(path);
  Module from_prepared = convert_to_reference(Prepared::load(path), backend_config("x86")).module();
  EXPECT_TRUE(at::equal(from_prepared.forward({x}).toTensor(), wanted));
  reference.save(path);
  Module from_reference = Reference::load(path).module();
  EXPECT_TRUE(at::equal(from_reference.forward({x}).toTensor(), wanted));
}

TEST(Equalize, ASavedStageCanBeCalibrated) {
  torch::manual_seed(7);
  const at::Tensor x = torch::randn({16, 5});
  const Module model = two_linears();
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("prepared.pt");
  prepare(model, min_max(), backend_config("x86"), {.equalization = everything(), .recipe = Recipe::Fx})
      .save(path);
  Prepared loaded = Prepared::load(path);
  calibrate(loaded, std::vector<Sample>{{x}});
  Module from_file = convert_to_reference(loaded, backend_config("x86")).module();
  Module direct = reference_of(model, x, everything()).module();
  EXPECT_TRUE(at::equal(from_file.forward({x}).toTensor(), direct.forward({x}).toTensor()));
}

TEST(Equalize, WithoutDataThereIsNoScale) {
  const Module model = two_linears();
  const Prepared prepared =
      prepare(model, min_max(), backend_config("x86"), {.equalization = everything(), .recipe = Recipe::Fx});
  const Reference reference = convert_to_reference(
      prepared, backend_config("x86"), {.custom = ConvertCustomConfig().set_allow_uncalibrated(true)});
  EXPECT_EQ(count_of(reference, c10::aten::mul), 0u);
  EXPECT_EQ(reference.report().unobserved_layers, (std::vector<std::string>{"", "fc1", "fc2"}));
}

}  // namespace equalize_test
}  // namespace tsq
