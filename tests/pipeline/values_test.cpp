// Prepared and Reference are values, files say what they belong to, and the order of samples changes nothing.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/quantize.h>
#include <tsq/recipe.h>
#include <tsq/train.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "config/expect_error.h"
#include "io/archive.h"
#include "pipeline/stage.h"
#include "pipeline/stage_file.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace values_test {

using torch::jit::Module;

std::vector<Sample> samples(double scale = 1) {
  torch::manual_seed(5);
  std::vector<Sample> result;
  for (int i = 0; i < 6; ++i) result.push_back({scale * torch::randn({1, 3, 8 + i, 8})});
  return result;
}

Prepared prepared(const Module& model, Recipe recipe = Recipe::Best) {
  return prepare(model, best_qconfig_mapping("x86"), backend_config("x86"),
                 {.recipe = recipe, .target_cpu = TargetCpu::WithoutVnni});
}

std::string bytes_of(const Prepared& calibrated) {
  std::ostringstream file;
  convert(calibrated, backend_config("x86")).module().save(file);
  return file.str();
}

Module network() {
  torch::manual_seed(3);
  return testing::conv_bn_relu();
}

TEST(Values, CalibratingACopyLeavesTheOriginalAlone) {
  Prepared original = prepared(network());
  calibrate(original, samples());
  const std::string before = bytes_of(original);
  Prepared copy = original;
  EXPECT_EQ(bytes_of(copy), before);
  calibrate(copy, samples(/*scale=*/10));
  EXPECT_EQ(bytes_of(original), before);
  EXPECT_NE(bytes_of(copy), before);
}

TEST(Values, AModelThatWritesIntoItsArgumentLeavesTheSamplesAlone) {
  Module writing = testing::user_module("Writing");
  writing.register_module("conv", testing::conv2d(3, 3, 3));
  writing.define("def forward(self, x):\n  x.mul_(3)\n  return self.conv.forward(x)\n");
  const std::vector<Sample> given = samples();
  Prepared calibrated = prepared(writing);
  calibrate(calibrated, given);
  for (std::size_t i = 0; i < given.size(); ++i)
    EXPECT_TRUE(at::equal(given[i][0].toTensor(), samples()[i][0].toTensor())) << i;
}

TEST(Values, ACopyThatTrainsHasParametersOfItsOwn) {
  const Prepared original = prepare_qat(network(), default_qat_qconfig_mapping("x86"), backend_config("x86"),
                                        {.recipe = Recipe::Fx});
  Prepared copy = original;
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : copy.module().parameters()) parameter.zero_();
  double sum = 0;
  for (const at::Tensor& parameter : original.module().parameters())
    sum += parameter.abs().sum().item<double>();
  EXPECT_GT(sum, 0);
}

TEST(Values, AReferenceStaysWhatItWasWhenItsPreparedGoesOn) {
  const testing::TemporaryFolder folder;
  Prepared from = prepared(network());
  calibrate(from, samples());
  const Reference reference = convert_to_reference(from, backend_config("x86"));
  const auto bytes = [&](const Reference& each) {
    std::ostringstream file;
    lower(each, backend_config("x86")).module().save(file);
    return file.str();
  };
  const std::string before = bytes(reference);
  calibrate(from, samples(/*scale=*/10));
  reference.save(folder.file("reference.pt"));
  EXPECT_EQ(bytes(Reference::load(folder.file("reference.pt"))), before);
}

TEST(Values, TheOrderOfSamplesDecidesNothing) {
  const auto graph_after = [](std::vector<Sample> data) {
    Prepared one = prepared(network());
    calibrate(one, data);
    const Lowered lowered = convert(one, backend_config("x86"));
    std::vector<std::string> kernels;
    for (const Decision& decision : lowered.report().decisions) kernels.push_back(decision.kernel);
    return kernels;
  };
  std::vector<Sample> data = samples();
  const auto expected = graph_after(data);
  std::ranges::reverse(data);
  EXPECT_EQ(graph_after(data), expected);
  std::rotate(data.begin(), data.begin() + 2, data.end());
  EXPECT_EQ(graph_after(data), expected);
}

TEST(Values, SamplesMayComeInSeveralCalls) {
  const std::vector<Sample> data = samples();
  Prepared at_once = prepared(network());
  calibrate(at_once, data);
  Prepared one_by_one = prepared(network());
  for (const Sample& sample : data) calibrate(one_by_one, std::vector<Sample>{sample});
  EXPECT_EQ(bytes_of(one_by_one), bytes_of(at_once));
}

std::string refusal_of(const std::string& path) {
  try {
    Prepared::load(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadModel);
    return error.what();
  }
  return "no error";
}

/// A prepared file whose configuration says something else.
void edit(const Prepared& written, const std::string& path, const char* key, const nlohmann::json& value) {
  written.save(path);
  Module module = load(path);
  nlohmann::json configuration = detail::continuation_of(detail::stage_of(written), "prepared");
  configuration[key] = value;
  io::save_archive(module, configuration, path, {});
}

TEST(Values, AFileThatWasChangedIsRefused) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("prepared.pt");
  Prepared one = prepared(network());
  calibrate(one, samples());
  const std::string refusal = "'" + path +
                              "' was changed after tsq wrote it: its recipe, table, mapping or version are "
                              "not those that its observers "
                              "were made with; prepare and calibrate the float model again";
  for (const auto& [key, value] : {std::pair<const char*, nlohmann::json>{"tsq", "0.0.9"},
                                   {"recipe", "fx"},
                                   {"qconfig_mapping", default_qconfig_mapping("x86").to_dict()}}) {
    edit(one, path, key, value);
    EXPECT_EQ(refusal_of(path), refusal) << key;
  }
  edit(one, path, "layout", 7);
  EXPECT_EQ(refusal_of(path),
            "'" + path +
                "' was written by another version of tsq, whose files this one does not read; "
                "prepare and calibrate the float model again");
}

TEST(Values, AReferenceIsLoweredForItsOwnBackendAlone) {
  Prepared one = prepared(network());
  calibrate(one, samples());
  const Reference reference = convert_to_reference(one, backend_config("x86"));
  expect_error(
      "the model was prepared for backend 'x86' and cannot be lowered for 'qnnpack'; prepare it again for "
      "that "
      "backend, or give the table of 'x86'",
      [&] { lower(reference, backend_config("qnnpack")); });
}

}  // namespace values_test
}  // namespace tsq
