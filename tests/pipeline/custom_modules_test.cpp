// Modules of the user's classes that become observed and quantized modules (E-08, E-10, E-15).
// tests/conformance/custom_modules.py compares them with FX.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>
#include <tsq/register_custom_module.h>
#include <tsq/train.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/expect_error.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace custom_modules_test {

using torch::jit::Module;

constexpr const char* kObserved = R"(class Observed(Module):
  __parameters__ = ["weight", ]
  weight : Tensor
  largest : Tensor
  def from_float(self) -> None:
    self.largest = torch.zeros([1])
    return None
  def forward(self, x: Tensor) -> Tensor:
    self.largest = torch.max(self.largest, torch.max(torch.abs(x)))
    return torch.linear(x, self.weight)
)";

constexpr const char* kQuantized = R"(class Quantized(Module):
  weight : Tensor
  largest : Tensor
  rounded : Tensor
  weight_scale : Tensor
  weight_zero_point : Tensor
  weight_axis : int
  weight_dtype : int
  output_scale : float
  output_zero_point : int
  output_dtype : int
  def from_observed(self) -> None:
    rounded = torch.quantize_per_channel(self.weight, self.weight_scale, self.weight_zero_point, self.weight_axis, self.weight_dtype)
    self.rounded = torch.dequantize(rounded)
    return None
  def forward(self, x: Tensor) -> Tensor:
    result = torch.linear(torch.dequantize(x), self.rounded)
    return torch.quantize_per_tensor(result, self.output_scale, self.output_zero_point, self.output_dtype)
)";

nlohmann::json by_source(const char* source) { return {{"source", source}}; }

PrepareCustomConfig at_prepare(const nlohmann::json& observed) {
  return PrepareCustomConfig::from_dict(
      {{"float_to_observed_custom_module_class", {{"static", {{"mine.Layer", observed}}}}}});
}

ConvertCustomConfig at_convert(const nlohmann::json& quantized, const char* type = "static",
                               const char* observed = "Observed") {
  return ConvertCustomConfig::from_dict(
      {{"observed_to_quantized_custom_module_class", {{type, {{observed, quantized}}}}}});
}

/// A linear layer, a layer of the user's class, and another linear layer.
Module network() {
  torch::manual_seed(7);
  Module layer("__torch__.mine.Layer");
  layer.register_parameter("weight", torch::randn({4, 4}), /*is_buffer=*/false);
  layer.define("def forward(self, x):\n  return torch.linear(x, self.weight)\n");
  Module model = testing::user_module("Network");
  model.register_module("before", testing::linear(4, 4));
  model.register_module("layer", layer);
  model.register_module("after", testing::linear(4, 4));
  model.define(
      "def forward(self, x):\n  return self.after.forward(self.layer.forward(self.before.forward(x)))\n");
  return model;
}

const BackendConfig& x86() {
  static const BackendConfig table = backend_config("x86");
  return table;
}

std::vector<Sample> samples() {
  torch::manual_seed(9);
  return {{torch::randn({6, 4})}, {torch::randn({6, 4}) * 2}};
}

Prepared calibrated(const PrepareCustomConfig& custom, Recipe recipe = Recipe::Fx,
                    QConfigMapping mapping = default_qconfig_mapping("x86")) {
  Prepared prepared = prepare(network(), mapping, x86(), {.custom = custom, .recipe = recipe});
  calibrate(prepared, samples());
  return prepared;
}

at::Tensor result_of(Module module) {
  torch::manual_seed(8);
  const at::NoGradGuard no_grad;
  return module.forward({torch::randn({6, 4})}).toTensor();
}

/// Of the linear layer of torch.nn in the custom one's place: the same arithmetic.
at::Tensor result_of_linear() {
  Module model = network();
  Module linear = testing::linear(4, 4);
  linear.setattr("weight", model.attr("layer").toModule().attr("weight"));
  linear.setattr("bias", torch::zeros({4}));
  Module plain = testing::user_module("Plain");
  plain.register_module("before", model.attr("before").toModule());
  plain.register_module("layer", linear);
  plain.register_module("after", model.attr("after").toModule());
  plain.define(
      "def forward(self, x):\n  return self.after.forward(self.layer.forward(self.before.forward(x)))\n");
  Prepared prepared = prepare(plain, default_qconfig_mapping("x86"), x86(), {.recipe = Recipe::Fx});
  calibrate(prepared, samples());
  return result_of(convert_to_reference(prepared, x86()).module());
}

TEST(CustomModules, InTorchScriptComputeAsTheLayerWhoseStepsTheyWrite) {
  const Prepared prepared = calibrated(at_prepare(by_source(kObserved)));
  const Reference reference =
      convert_to_reference(prepared, x86(), {.custom = at_convert(by_source(kQuantized))});
  EXPECT_TRUE(at::equal(result_of(reference.module()), result_of_linear()));
  const auto layer = std::ranges::find(reference.report().decisions, "layer", &Decision::layer);
  ASSERT_NE(layer, reference.report().decisions.end());
  EXPECT_TRUE(layer->quantized);
  EXPECT_EQ(layer->kernel, "Quantized");
}

TEST(CustomModules, ThatNothingQuantizesStayObserved) {
  const Prepared prepared = calibrated(at_prepare(by_source(kObserved)));
  const Lowered lowered = convert(prepared, x86());
  const auto layer = std::ranges::find(lowered.report().decisions, "layer", &Decision::layer);
  EXPECT_FALSE(layer->quantized);
  EXPECT_NE(layer->reason.find("names nothing for Observed"), std::string::npos) << layer->reason;
}

TEST(CustomModules, OfTheProgramGetTheModuleTheQConfigAndTheRange) {
  register_observed_module("mine.Observed", [](const Module& layer, const QConfig& qconfig) {
    EXPECT_EQ(qconfig.activation.observer, "HistogramObserver");
    Module observed("__torch__.mine.Observed");
    observed.register_buffer("weight", layer.attr("weight").toTensor());
    observed.register_buffer("calls", torch::zeros({1}));
    observed.define("def forward(self, x):\n  self.calls.add_(1)\n  return torch.linear(x, self.weight)\n");
    return observed;
  });
  register_quantized_module(
      "mine.Quantized", [](const Module& observed, const QConfig& /*qconfig*/, const auto& output) {
        EXPECT_EQ(observed.attr("calls").toTensor().template item<int64_t>(), 2);
        Module quantized("__torch__.mine.Quantized");
        quantized.register_attribute("scale", c10::FloatType::get(),
                                     output.value().scale.template item<double>());
        quantized.define(
            "def forward(self, x):\n  return torch.quantize_per_tensor(torch.dequantize(x), self.scale, 0, "
            "13)\n");
        return quantized;
      });
  const Prepared prepared = calibrated(at_prepare("mine.Observed"));
  Prepared copy = prepared;  // with observers and observed modules of its own
  calibrate(copy, std::vector<Sample>{{torch::randn({6, 4})}});
  const ConvertCustomConfig custom = at_convert("mine.Quantized", "static", "mine.Observed");
  EXPECT_NO_THROW(convert(prepared, x86(), {.custom = custom}));
  const testing::TemporaryFolder folder;
  prepared.save(folder.file("prepared.pt"));
  const Prepared loaded = Prepared::load(folder.file("prepared.pt"));
  const Reference reference = convert_to_reference(loaded, x86(), {.custom = custom});
  reference.save(folder.file("reference.pt"));
  EXPECT_TRUE(at::equal(result_of(Reference::load(folder.file("reference.pt")).module()),
                        result_of(reference.module())));
}

TEST(CustomModules, ThatAreCalledTwiceHaveAQuantizedModuleForEachCall) {
  Module model = network();
  Module twice = testing::user_module("Twice");
  twice.register_module("layer", model.attr("layer").toModule());
  twice.define("def forward(self, x):\n  return self.layer.forward(self.layer.forward(x) * 4)\n");
  Prepared prepared = prepare(twice, default_qconfig_mapping("x86"), x86(),
                              {.custom = at_prepare(by_source(kObserved)), .recipe = Recipe::Fx});
  calibrate(prepared, samples());
  const Reference reference =
      convert_to_reference(prepared, x86(), {.custom = at_convert(by_source(kQuantized))});
  const at::Tensor wanted = result_of(twice);
  EXPECT_LT((result_of(reference.module()) - wanted).norm().item<double>(),
            0.1 * wanted.norm().item<double>());
}

TEST(CustomModules, StandInRecipeBestToo) {
  const Prepared prepared = calibrated(at_prepare(by_source(kObserved)), Recipe::Best);
  const Lowered lowered = convert(prepared, x86(), {.custom = at_convert(by_source(kQuantized))});
  const at::Tensor error = result_of(lowered.module()) - result_of(network());
  EXPECT_LT(error.norm().item<double>(), 0.1 * result_of(network()).norm().item<double>());
}

TEST(CustomModules, OfRecipeBestAreStatic) {
  auto mapping = default_qconfig_mapping("x86").set_module_name("layer", qconfig("default_dynamic_qconfig"));
  const auto is_observed = [&](Recipe recipe) {
    const Prepared prepared = calibrated(at_prepare(by_source(kObserved)), recipe, mapping);
    const auto layer = std::ranges::find(prepared.report().decisions, "layer", &Decision::layer);
    return layer->quantized;
  };
  EXPECT_TRUE(is_observed(Recipe::Fx)) << "FX rounds its input";
  EXPECT_FALSE(is_observed(Recipe::Best));
}

TEST(CustomModules, OfAClassThatTheModelHoldsAreQuantizedDynamically) {
  const auto custom = PrepareCustomConfig().set_non_traceable_module_classes({symbol("mine.Layer")});
  auto mapping = QConfigMapping().set_object_type(symbol("mine.Layer"), qconfig("default_dynamic_qconfig"));
  const Prepared prepared = calibrated(custom, Recipe::Fx, mapping);
  constexpr const char* kDynamic = R"(class Dynamic(Module):
  weight : Tensor
  def forward(self, x: Tensor) -> Tensor:
    return torch.linear(x, torch.mul(self.weight, 2))
)";
  const auto by_type = [&](const char* type) {
    return convert_to_reference(prepared, x86(),
                                {.custom = at_convert(by_source(kDynamic), type, "mine.Layer")})
        .module();
  };
  EXPECT_FALSE(at::allclose(result_of(by_type("dynamic")), result_of(network())));
  expect_error_with("layer 'layer' (mine.Layer): its qconfig is dynamic", [&] { by_type("static"); });
}

TEST(CustomModules, ThatCannotBeMadeAreRefusedWithThePlace) {
  const auto prepared_with = [](const nlohmann::json& observed) { calibrated(at_prepare(observed)); };
  expect_error_with("the custom config names the observed module 'mine.Nobody', which nobody registered",
                    [&] { prepared_with("mine.Nobody"); });
  expect_error_with(
      "the observed module 'Two' is a module whose forward takes 2 arguments, and it is called with 1", [&] {
        prepared_with(
            by_source("class Two(Module):\n  def forward(self, x: Tensor, y: Tensor) -> "
                      "Tensor:\n    return x\n"));
      });
  register_observed_module("mine.Throws", [](const Module&, const QConfig&) -> Module {
    throw std::runtime_error("no such weight");
  });
  expect_error_with("the observed module 'mine.Throws' failed: no such weight",
                    [&] { prepared_with("mine.Throws"); });
  expect_error_with("'torch.nn.Linear' cannot be the name of an observed module", [] {
    register_observed_module("torch.nn.Linear", [](const Module& module, const QConfig&) { return module; });
  });
}

Prepared prepared_for_training() {
  const Module model = network();
  for (const at::Tensor& parameter : model.parameters()) parameter.set_requires_grad(true);
  return prepare_qat(model, default_qat_qconfig_mapping("x86"), x86(),
                     {.custom = at_prepare(by_source(kObserved)), .recipe = Recipe::Fx});
}

at::Tensor weight_in(const Module& model) { return model.attr("layer").toModule().attr("weight").toTensor(); }

void make_a_step(const Prepared& prepared) {
  Module module = prepared.module();
  module.forward({samples().front().front()}).toTensor().square().mean().backward();
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : module.parameters()) parameter.sub_(parameter.grad());
}

Module reference_of(const Prepared& trained) {
  return convert_to_reference(trained, x86(), {.custom = at_convert(by_source(kQuantized))}).module();
}

/// tests/training/train_custom_modules.py compares them with FX.
TEST(CustomModules, AreTrainedAsTheyAreObserved) {
  const Prepared prepared = prepared_for_training();
  const Prepared copy = prepared;
  const at::Tensor before = weight_in(prepared.module()).detach().clone();
  make_a_step(prepared);
  const at::Tensor trained = weight_in(prepared.module()).detach();
  EXPECT_FALSE(at::equal(trained, before));
  EXPECT_TRUE(at::equal(weight_in(copy.module()), before));
  const at::Tensor rounded = reference_of(prepared).attr("layer").toModule().attr("rounded").toTensor();
  EXPECT_LE((rounded - trained).abs().max().item<float>(), trained.abs().max().item<float>() / 127);
}

TEST(CustomModules, ThatHaveBeenTrainedAreReadFromTheFile) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("trained.pt");
  const Prepared prepared = prepared_for_training();
  make_a_step(prepared);
  prepared.module().save(path);
  EXPECT_TRUE(at::equal(result_of(reference_of(Prepared::load(path))), result_of(reference_of(prepared))));
}

TEST(CustomModules, OfFilesAreInThePreparedFile) {
  const testing::TemporaryFolder folder;
  const std::string observed = folder.file("observed.pt");
  register_observed_module("mine.Plain",
                           [](const Module& layer, const QConfig&) { return layer.deepcopy(); });
  Module module("__torch__.mine.Observed");
  module.register_buffer("weight", torch::zeros({4, 4}));
  module.define("def forward(self, x):\n  return torch.linear(x, self.weight)\n");
  module.save(observed);
  const nlohmann::json by_file{{"file", observed}, {"name", "mine.Observed"}};
  const Prepared prepared = calibrated(at_prepare(by_file));
  EXPECT_EQ(at_prepare(by_file).to_dict()["float_to_observed_custom_module_class"]["static"]["mine.Layer"],
            by_file);
  prepared.save(folder.file("prepared.pt"));
  std::filesystem::remove(observed);
  const Prepared loaded = Prepared::load(folder.file("prepared.pt"));
  EXPECT_TRUE(at::equal(result_of(loaded.module()), result_of(prepared.module())));
  loaded.save(folder.file("again.pt"));
  EXPECT_NO_THROW(Prepared::load(folder.file("again.pt")));
  expect_error_with("the module file '" + observed + "' cannot be read",
                    [&] { prepared.save(folder.file("late.pt")); });
}

}  // namespace custom_modules_test
}  // namespace tsq
