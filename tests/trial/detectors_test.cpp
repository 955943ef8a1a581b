// Faults planted in a layer, found by the detector that looks for them and by no other layer.

#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/detectors.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/small_models.h"

namespace tsq {
namespace detectors_test {

using ::testing::ElementsAre;
using torch::jit::Module;

/// first → relu → second, of linear layers.
Module layers() {
  torch::manual_seed(1);
  Module model = testing::user_module("Layers");
  model.register_module("first", testing::linear(24, 32));
  model.register_module("second", testing::linear(32, 8));
  model.define("def forward(self, x):\n  return self.second.forward(torch.relu(self.first.forward(x)))\n");
  model.eval();
  return model;
}

/// Each with values from -1 to 1, of even spread.
std::vector<Sample> even_samples(int count = 6) {
  torch::manual_seed(2);
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) samples.push_back({torch::rand({400, 24}) * 2 - 1});
  return samples;
}

std::vector<Finding> found(Detector detector, const Module& model, const std::vector<Sample>& samples,
                           const QConfigMapping& mapping = default_qconfig_mapping("x86")) {
  std::vector<Finding> findings = detect(model, samples, mapping, backend_config("x86"));
  std::erase_if(findings, [&](const Finding& finding) { return finding.detector != detector; });
  return findings;
}

TEST(Detectors, OutliersAreFoundInTheirChannelsOnBothSidesOfZero) {
  std::vector<Sample> samples = even_samples();
  EXPECT_THAT(found(Detector::Outliers, layers(), samples), ::testing::IsEmpty());
  for (Sample& sample : samples) {
    at::Tensor x = sample[0].toTensor();
    x.index_put_({0, 3}, -40.0);
    x.index_put_({1, 7}, 40.0);
  }
  const std::vector<Finding> findings = found(Detector::Outliers, layers(), samples);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].layer, "first");
  EXPECT_THAT(findings[0].channels, ElementsAre(3, 7));
  EXPECT_NEAR(findings[0].figure, 40 / 0.975, 2);
  EXPECT_TRUE(findings[0].advises_qconfig);
  EXPECT_FALSE(findings[0].qconfig.has_value()) << "leave it float";
}

TEST(Detectors, AChannelThatIsLargeThroughoutIsAnOutlier) {
  std::vector<Sample> samples = even_samples();
  for (Sample& sample : samples) sample[0].toTensor().select(1, 9).mul_(20);
  const std::vector<Finding> findings = found(Detector::Outliers, layers(), samples);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].layer, "first");
  EXPECT_THAT(findings[0].channels, ElementsAre(9));
}

TEST(Detectors, AnOutlierThatFewSamplesHaveIsNone) {
  std::vector<Sample> samples = even_samples();
  for (Sample& sample : samples) sample[0].toTensor().select(1, 3).zero_();
  samples[0][0].toTensor().select(1, 3).fill_(1e-3).index_put_({0}, at::tensor(1.0));
  EXPECT_THAT(found(Detector::Outliers, layers(), samples), ::testing::IsEmpty());
}

TEST(Detectors, ARangeThatChangesFromSampleToSampleAsksForADynamicOne) {
  std::vector<Sample> samples = even_samples(5);
  EXPECT_THAT(found(Detector::Dynamic, layers(), samples), ::testing::IsEmpty());
  samples[0][0].toTensor().mul_(50);
  const std::vector<Finding> findings = found(Detector::Dynamic, layers(), samples);
  ASSERT_EQ(findings.size(), 2U) << "what follows changes as well";
  EXPECT_EQ(findings[0].layer, "first");
  EXPECT_LT(findings[0].figure, 0.5);
  EXPECT_TRUE(resolve(findings[0].qconfig->activation).is_dynamic);
}

TEST(Detectors, AWeightWithOneScaleAsksForOneOfEachChannelWhereItHasNone) {
  EXPECT_THAT(found(Detector::PerChannel, layers(), even_samples()), ::testing::IsEmpty());
  const QConfigMapping one_scale = QConfigMapping().set_global(qconfig("default_qconfig"));
  Module model = layers();
  model.attr("second").toModule().attr("weight").toTensor().select(0, 0).mul_(100);
  const std::vector<Finding> findings = found(Detector::PerChannel, model, even_samples(), one_scale);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_LT(findings[0].figure, 10);
  EXPECT_GT(findings[1].figure, 50);
  EXPECT_EQ(findings[1].qconfig->weight.observer, "PerChannelMinMaxObserver");
  EXPECT_EQ(findings[1].qconfig->activation, qconfig("default_qconfig").activation);
}

TEST(Detectors, ChannelsThatFillTheirRangesUnequallyAskForEqualization) {
  std::vector<Sample> samples = even_samples();
  Module model = layers();
  at::Tensor weight = model.attr("first").toModule().attr("weight").toTensor();
  weight.copy_(torch::rand_like(weight) * 2 - 1);
  EXPECT_THAT(found(Detector::Equalization, model, samples), ::testing::IsEmpty());
  for (Sample& sample : samples) sample[0].toTensor().select(1, 5).mul_(0.05);
  const std::vector<Finding> findings = found(Detector::Equalization, model, samples);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].layer, "first");
  EXPECT_THAT(findings[0].channels, ElementsAre(5));
  EXPECT_NEAR(findings[0].figure, std::sqrt(20), 0.3);
  EXPECT_THAT(advised_equalization(findings).as_qconfigs().module_name_qconfigs(),
              ::testing::Not(::testing::IsEmpty()));
}

TEST(Detectors, WhatIsAdvisedQuantizesBetter) {
  std::vector<Sample> samples = even_samples();
  for (Sample& sample : samples) sample[0].toTensor().index_put_({0, 3}, 400.0);
  const Module model = layers();
  const QConfigMapping mapping = default_qconfig_mapping("x86");
  const BackendConfig backend = backend_config("x86");
  const std::vector<Finding> findings = detect(model, samples, mapping, backend);
  const auto sqnr = [&](const QConfigMapping& chosen) {
    Prepared prepared = prepare(model, chosen, backend, {.recipe = Recipe::Fx});
    calibrate(prepared, samples);
    return try_model(model, convert(prepared, backend).module(), backend, samples).sqnr_db.value();
  };
  const QConfigMapping advised =
      QConfigMapping::from_dict(advised_qconfigs(mapping, findings).to_dict());  // as --qconfig reads it
  EXPECT_GT(sqnr(advised), sqnr(mapping) + 10);
}

/// Samples of images with one large value in channel 1.
std::vector<Sample> images_with_an_outlier() {
  torch::manual_seed(4);
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) {
    at::Tensor x = torch::rand({2, 3, 16, 16});
    x.index_put_({0, 1, 0, 0}, 90.0);
    samples.push_back({x});
  }
  return samples;
}

TEST(Detectors, ConvolutionsHaveTheirChannelsBeforeTheImage) {
  Module model = testing::user_module("Image");
  model.register_module("conv", testing::conv2d(3, 4, 3));
  model.define("def forward(self, x):\n  return self.conv.forward(x)\n");
  model.eval();
  const std::vector<Finding> findings = found(Detector::Outliers, model, images_with_an_outlier());
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].channels, ElementsAre(1));
}

TEST(Detectors, ConvolutionsOfTracedFilesAreSeen) {
  Module model = testing::user_module("Traced");
  Module conv = testing::user_module("TracedConv");
  conv.register_parameter("weight", torch::rand({4, 3, 3, 3}) - 0.5, false);
  conv.define(
      "def forward(self, x):\n"
      "  return torch._convolution(x, self.weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, "
      "False, "
      "True, True)\n");
  model.register_module("conv", conv);
  model.define("def forward(self, x):\n  return self.conv.forward(x)\n");
  model.eval();
  const std::vector<Finding> findings = found(Detector::Outliers, model, images_with_an_outlier());
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].layer, "conv");
}

}  // namespace detectors_test
}  // namespace tsq
