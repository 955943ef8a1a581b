// Prepared and reference models hold modules at the user's paths.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/quantize.h>
#include <tsq/state_dict.h>

#include <set>
#include <string>

#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace user_layout_test {

using torch::jit::Module;

/// layers.0 (conv → bn → relu), layers.1.fc → norm, an addition of `shift`; `fc` is called twice.
Module nested_model() {
  torch::manual_seed(3);
  Module inner = testing::user_module("Inner");
  inner.register_module("fc", testing::linear(8, 8));
  inner.register_module("norm", testing::layer_norm(8));
  inner.register_parameter("shift", torch::randn({8}), /*is_buffer=*/false);
  inner.register_attribute("width", c10::IntType::get(), int64_t{8});
  inner.define(
      "def forward(self, x):\n"
      "  return self.norm.forward(self.fc.forward(self.fc.forward(x))) + self.shift\n");
  Module layers = testing::user_module("Layers");
  layers.register_module("0", testing::conv_bn_relu());
  layers.register_module("1", inner);
  layers.define(
      "def forward(self, x):\n  return getattr(self, \"1\").forward(getattr(self, \"0\").forward(x))\n");
  Module model = testing::user_module("Model");
  model.register_module("layers", layers);
  model.define("def forward(self, x):\n  return self.layers.forward(x)\n");
  return model;
}

Prepared calibrated(const Module& model) {
  Prepared prepared =
      prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
  const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}, {torch::randn({2, 3, 8, 8})}};
  calibrate(prepared, samples);
  return prepared;
}

std::set<std::string> state_keys(const Module& module) {
  std::set<std::string> keys;
  for (const auto& [key, tensor] : state_dict(module)) keys.insert(key);
  return keys;
}

std::set<std::string> without(std::set<std::string> keys, const std::string& begin) {
  std::erase_if(keys, [&](const std::string& key) { return key.starts_with(begin); });
  return keys;
}

/// The convolution is the first of a fused module.
const std::set<std::string> kFloatKeys{"layers.0.conv.0.weight", "layers.0.conv.0.bias", "layers.1.fc.weight",
                                       "layers.1.fc.bias",       "layers.1.norm.weight", "layers.1.norm.bias",
                                       "layers.1.shift"};

TEST(UserLayout, PreparedModelsHaveTheKeysOfTheUser) {
  const Prepared prepared = calibrated(nested_model());
  EXPECT_EQ(without(state_keys(prepared.module()), "activation_post_process_"), kFloatKeys);
}

TEST(UserLayout, ReferenceModelsHaveTheKeysOfTheUserAndOfReferenceModules) {
  const Reference reference = convert_to_reference(calibrated(nested_model()), backend_config("x86"));
  std::set<std::string> expected = kFloatKeys;
  for (const std::string layer : {"layers.0.conv.0.", "layers.1.fc."}) {
    for (const char* name : {"weight_scale", "weight_zero_point", "weight_axis"})
      expected.insert(layer + name);
  }
  for (const std::string name :
       {"layers_0_conv_input", "layers_0_conv", "layers_1_fc", "layers_1_norm", "layers_1"}) {
    expected.insert(name + "_scale_0");
    expected.insert(name + "_zero_point_0");
  }
  // Of the second call of `fc`, and of the sum beside its addend `shift`.
  for (const std::string name : {"layers_1_fc", "layers_1"}) {
    expected.insert(name + "_scale_1");
    expected.insert(name + "_zero_point_1");
  }
  EXPECT_EQ(state_keys(reference.module()), expected);
}

TEST(UserLayout, FilesHaveTheSameKeysAndNoneOfTheFloatModelBeside) {
  const Prepared prepared = calibrated(nested_model());
  const Reference reference = convert_to_reference(prepared, backend_config("x86"));
  const testing::TemporaryFolder folder;
  prepared.save(folder.file("prepared.pt"));
  reference.save(folder.file("reference.pt"));
  EXPECT_EQ(state_keys(torch::jit::load(folder.file("prepared.pt"))), state_keys(prepared.module()));
  EXPECT_EQ(state_keys(torch::jit::load(folder.file("reference.pt"))), state_keys(reference.module()));
}

TEST(UserLayout, AReferenceModuleRoundsItsWeightAsPyTorchsDoes) {
  const Reference reference = convert_to_reference(calibrated(nested_model()), backend_config("x86"));
  Module fc = reference.module().attr("layers").toModule().attr("1").toModule().attr("fc").toModule();
  const at::NoGradGuard no_grad;
  const at::Tensor rounded =
      at::quantize_per_channel(fc.attr("weight").toTensor(), fc.attr("weight_scale").toTensor(),
                               fc.attr("weight_zero_point").toTensor(), fc.attr("weight_axis_int").toInt(),
                               static_cast<c10::ScalarType>(fc.attr("weight_dtype").toInt()))
          .dequantize();
  const at::Tensor input = torch::randn({2, 8});
  EXPECT_TRUE(
      at::equal(fc.forward({input}).toTensor(), at::linear(input, rounded, fc.attr("bias").toTensor())));
}

TEST(UserLayout, SettingsOfTheUsersModulesStandBesideTheirLayers) {
  const Prepared prepared = calibrated(nested_model());
  const Module inner = prepared.module().attr("layers").toModule().attr("1").toModule();
  EXPECT_EQ(inner.attr("width").toInt(), 8);
}

TEST(UserLayout, ModulesOfTheUserMayHaveTheNamesOfObservers) {
  Module model = testing::user_module("Model");
  model.register_module("activation_post_process_0", testing::conv_bn_relu());
  model.define("def forward(self, x):\n  return self.activation_post_process_0.forward(x)\n");
  Prepared prepared = calibrated(model);
  const testing::TemporaryFolder folder;
  prepared.save(folder.file("prepared.pt"));
  const at::Tensor input = torch::randn({2, 3, 8, 8});
  const at::NoGradGuard no_grad;
  const auto outcome = [&](const Prepared& from) {
    Module lowered = convert(from, backend_config("x86")).module();
    return lowered.forward({input}).toTensor();
  };
  EXPECT_TRUE(at::equal(outcome(Prepared::load(folder.file("prepared.pt"))), outcome(prepared)));
}

Module linear_model(int64_t seed) {
  torch::manual_seed(seed);
  Module model = testing::user_module("Model");
  model.register_module("fc", testing::linear(8, 8));
  model.define("def forward(self, x):\n  return self.fc.forward(x)\n");
  return model;
}

TEST(StateDict, OfAFloatModelLoadsIntoAPreparedOne) {
  const Module other = linear_model(2);
  const Prepared prepared =
      prepare(linear_model(1), default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
  load_state_dict(prepared.module(), state_dict(other), /*strict=*/false);
  EXPECT_TRUE(at::equal(state_dict(prepared.module()).at("fc.weight"), state_dict(other).at("fc.weight")));
}

TEST(StateDict, ThatLacksKeysIsNotLoadedInPart) {
  const Prepared prepared = calibrated(nested_model());
  const auto before = state_dict(prepared.module()).at("layers.1.fc.weight").clone();
  auto given = state_dict(nested_model());
  given.at("layers.1.fc.weight") = torch::zeros({8, 8});
  try {
    load_state_dict(prepared.module(), given);
    FAIL() << "the batch norm is folded, so that its keys are not there";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("missing keys: activation_post_process_0"), std::string::npos) << text;
    EXPECT_NE(text.find("unexpected keys: layers.0.bn.bias"), std::string::npos) << text;
  }
  EXPECT_TRUE(at::equal(state_dict(prepared.module()).at("layers.1.fc.weight"), before));
}

TEST(StateDict, OfOtherSizesIsNotLoaded) {
  const Module model = linear_model(1);
  auto given = state_dict(model);
  given.at("fc.bias") = torch::zeros({7});
  EXPECT_THROW(load_state_dict(model, given, /*strict=*/false), Error);
}

}  // namespace user_layout_test
}  // namespace tsq
