#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/quantize.h>

#include <cmath>

#include "passes/numerics/passes.h"
#include "pipeline/stage.h"
#include "support/calibrated_model.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"
#include "torchscript/emit.h"

namespace tsq {
namespace smooth_test {

using torch::jit::Module;

constexpr double kAlpha = 0.5;

QConfigMapping linear_layers_only() {
  return QConfigMapping().set_object_type("torch.nn.Linear", qconfig("default_per_channel_qconfig"));
}

/// ln → fc1, fc2, and something else may be returned: the LayerNorm's output "y", or its size.
Module two_readers(const std::string& returned = "") {
  Module model = testing::user_module("TwoReaders");
  model.register_module("ln", testing::layer_norm(8));
  model.register_module("fc1", testing::linear(8, 6));
  model.register_module("fc2", testing::linear(8, 4));
  model.define(std::string("def forward(self, x):\n  y = self.ln.forward(x)\n  return self.fc1.forward(y), "
                           "self.fc2.forward(y)") +
               (returned.empty() ? "\n" : ", " + returned + "\n"));
  return model;
}

Prepared calibrated(const Module& model, const at::Tensor& x, const PrepareOptions& options) {
  Prepared prepared = prepare(model, linear_layers_only(), backend_config("onednn"), options);
  calibrate(prepared, std::vector<Sample>{{x}});
  return prepared;
}

PrepareOptions smoothing() { return {.recipe = Recipe::Fx, .smooth_quant = kAlpha}; }

std::size_t multiplications(const Reference& reference) {
  return testing::count(detail::stage_of(reference).model, "aten::mul");
}

ir::ModuleCall& layer(const Reference& reference, const std::string& path) {
  return testing::call_of_layer(detail::stage_of(reference).model, path);
}

at::Tensor parameter(const Module& model, const std::string& path, const char* name) {
  return model.attr(path).toModule().attr(name).toTensor().detach();
}

/// Some channels of the LayerNorm are a hundred times as wide as others, as in real transformers.
Module with_outliers(Module model) {
  const c10::NoGradGuard no_grad;
  model.attr("ln").toModule().attr("weight").toTensor().mul_(torch::logspace(-1, 1, 8));
  return model;
}

double sqnr(const at::Tensor& wanted, const at::Tensor& got) {
  return 10 * std::log10((wanted.square().sum() / (wanted - got).square().sum()).item<double>());
}

TEST(Smooth, ModeDynamicNeedsNoDataButSmoothsWithSome) {
  torch::manual_seed(6);
  const BackendConfig backend = backend_config("x86");
  const Module model = with_outliers(two_readers());
  Prepared prepared = prepare(model, best_dynamic_qconfig_mapping(), backend, {.recipe = Recipe::Best});
  const at::Tensor weight = parameter(model, "fc1", "weight");
  const auto weight_of = [](const Reference& reference) {
    return ir::weighted_of(layer(reference, "fc1"))->weight;
  };
  EXPECT_TRUE(at::equal(weight_of(convert_to_reference(prepared, backend)), weight));
  const at::Tensor x = torch::randn({32, 8});
  calibrate(prepared, std::vector<Sample>{{x}});
  const Reference smoothed = convert_to_reference(prepared, backend);
  EXPECT_FALSE(at::allclose(weight_of(smoothed), weight));
  const auto first_output = [&](Module module) {
    return module.forward({x}).toTuple()->elements()[0].toTensor();
  };
  EXPECT_GT(sqnr(first_output(model), first_output(smoothed.module())), 30);
}

TEST(Smooth, ScalesAreThoseOfThePaperAndOneForAllReaders) {
  torch::manual_seed(1);
  const Module model = with_outliers(two_readers());
  const at::Tensor x = torch::randn({32, 8});
  const Reference reference =
      convert_to_reference(calibrated(model, x, smoothing()), backend_config("onednn"));
  const at::Tensor g = parameter(model, "ln", "weight");
  const at::Tensor w1 = parameter(model, "fc1", "weight");
  const at::Tensor w2 = parameter(model, "fc2", "weight");
  const at::Tensor y = at::layer_norm(x, {8}, g, parameter(model, "ln", "bias"));
  const at::Tensor scale = (y.abs().amax(0) / at::maximum(w1.abs().amax(0), w2.abs().amax(0))).sqrt();
  EXPECT_TRUE(at::allclose(ir::weighted_of(layer(reference, "fc1"))->weight, w1 * scale));
  EXPECT_TRUE(at::allclose(ir::weighted_of(layer(reference, "fc2"))->weight, w2 * scale));
  EXPECT_TRUE(at::allclose(layer(reference, "ln").module->attr("weight").toTensor(), g / scale));
  EXPECT_TRUE(at::equal(parameter(model, "ln", "weight"), g)) << "the user's model was changed";
  EXPECT_EQ(multiplications(reference), 0u);
}

TEST(Smooth, ALayerNormThatOthersReadKeepsItsParametersAndItsOutputIsMultiplied) {
  torch::manual_seed(2);
  const Module model = with_outliers(two_readers("y"));
  const at::Tensor x = torch::randn({32, 8});
  const Reference reference =
      convert_to_reference(calibrated(model, x, smoothing()), backend_config("onednn"));
  EXPECT_TRUE(
      at::equal(layer(reference, "ln").module->attr("weight").toTensor(), parameter(model, "ln", "weight")));
  EXPECT_EQ(multiplications(reference), 1u);
}

TEST(Smooth, AQuestionOfTheShapeDoesNotReadTheLayerNorm) {
  torch::manual_seed(2);
  const Module model = with_outliers(two_readers("y.size(0)"));
  const Reference reference =
      convert_to_reference(calibrated(model, torch::randn({32, 8}), smoothing()), backend_config("onednn"));
  EXPECT_EQ(multiplications(reference), 0u);
}

TEST(Smooth, ChangesNothingInFloat) {
  for (const char* returned : {"", "y"}) {
    torch::manual_seed(3);
    Module model = with_outliers(two_readers(returned));
    const at::Tensor x = torch::randn({32, 8});
    auto [converted, context] = testing::calibrated_model(calibrated(model, x, smoothing()));
    EXPECT_TRUE(passes::convert_smoothing(converted, context));
    Module smoothed = torchscript::emit(converted);
    const auto wanted = model.forward({x}).toTuple()->elements().vec();
    const auto got = smoothed.forward({x}).toTuple()->elements().vec();
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(at::allclose(wanted[i].toTensor(), got[i].toTensor(), 1e-4, 1e-4)) << i;
  }
}

TEST(Smooth, WithoutAStrengthWeightsStayAsTheyAre) {
  torch::manual_seed(7);
  auto [converted, context] =
      testing::calibrated_model(calibrated(with_outliers(two_readers()), torch::randn({32, 8}), smoothing()));
  const at::Tensor before = testing::layer(converted, "fc1").weight;
  context.options.smooth_quant.reset();
  EXPECT_FALSE(passes::convert_smoothing(converted, context));
  EXPECT_TRUE(testing::layer(converted, "fc1").weight.is_same(before));
}

TEST(Smooth, OutliersOfActivationsCostLess) {
  torch::manual_seed(4);
  Module model = with_outliers(two_readers("y"));
  const at::Tensor x = torch::randn({64, 8});
  const at::Tensor wanted = model.forward({x}).toTuple()->elements()[0].toTensor();
  const auto quality = [&](const PrepareOptions& options) {
    Module run = convert_to_reference(calibrated(model, x, options), backend_config("onednn")).module();
    return sqnr(wanted, run.forward({x}).toTuple()->elements()[0].toTensor());
  };
  EXPECT_GT(quality(smoothing()), quality({.recipe = Recipe::Fx}) + 3);
}

TEST(Smooth, TheReportSaysWhichLayersAreSmoothedAndWhyOthersAreNot) {
  Module model = testing::user_module("InFront");
  model.register_module("fc0", testing::linear(8, 8));
  model.register_module("ln", testing::layer_norm(8));
  model.register_module("fc1", testing::linear(8, 4));
  model.define("def forward(self, x):\n  return self.fc1.forward(self.ln.forward(self.fc0.forward(x)))\n");
  const Prepared prepared = prepare(model, linear_layers_only(), backend_config("x86"), smoothing());
  for (const Decision& decision : prepared.report().decisions) {
    if (decision.layer == "ln") continue;
    EXPECT_EQ(decision.equalization, decision.layer == "fc1"
                                         ? "smoothed"
                                         : "not smoothed: its input is not the output of a LayerNorm");
  }
}

TEST(Smooth, APreparedFileGoesOnWithItsRecipe) {
  torch::manual_seed(5);
  const Module model = with_outliers(two_readers());
  const at::Tensor x = torch::randn({32, 8});
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, linear_layers_only(), backend, smoothing());
  calibrate(prepared, std::vector<Sample>{{x}});
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("prepared.pt");
  prepared.save(path);
  Module direct = convert(prepared, backend);
  Module loaded = convert(Prepared::load(path), backend);
  EXPECT_TRUE(at::equal(direct.forward({x}).toTuple()->elements()[0].toTensor(),
                        loaded.forward({x}).toTuple()->elements()[0].toTensor()));
}

TEST(Smooth, SmoothingAndEqualizationTogetherAreRefused) {
  const EqualizationMapping everything = EqualizationMapping().set_global(default_equalization_qconfig());
  EXPECT_THROW(prepare(two_readers(), linear_layers_only(), backend_config("x86"),
                       {.equalization = everything, .recipe = Recipe::Fx, .smooth_quant = kAlpha}),
               Error);
}

}  // namespace smooth_test
}  // namespace tsq
