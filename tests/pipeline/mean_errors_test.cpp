// Bias correction with the samples that calibrate was given (recipe best).

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include "pipeline/stage.h"
#include "support/best_model.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace {

using testing::run;
using torch::jit::Module;

constexpr int64_t kChannels = 8;
constexpr int kLayers = 6;

/// Skewed, as most activations are: what rounding does to them does not cancel.
at::Tensor skewed_images(int64_t images) { return torch::randn({images, kChannels, 16, 16}).exp(); }

/// Convolutions with an activation after each.
Module deep_network(const std::string& activation) {
  torch::manual_seed(5);
  Module model = testing::user_module("Deep");
  model.register_module("prelu", testing::prelu(kChannels));
  std::string body;
  for (int i = 0; i < kLayers; ++i) {
    model.register_module(fmt::format("conv{}", i), testing::conv2d(kChannels, kChannels, 3));
    body += fmt::format(
        "  x = {}\n", fmt::format(fmt::runtime(activation), fmt::format("self.conv{}.forward(x) * 0.1", i)));
  }
  model.define("def forward(self, x):\n" + body + "  return x\n");
  return model;
}

std::vector<Sample> samples_of(int count) {
  torch::manual_seed(7);
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) samples.push_back({skewed_images(2)});
  return samples;
}

/// With 16 codes for activations: small values become zero.
Prepared prepared_best(const Module& model) {
  QConfig qconfig = *best_qconfig_mapping("x86").global_qconfig();
  qconfig.activation = {.observer = "MinMaxObserver", .quant_min = 0, .quant_max = 15};
  return prepare(model, QConfigMapping().set_global(qconfig), backend_config("x86"), {}, {},
                 {.recipe = Recipe::Best});
}

Prepared calibrated(const Module& model, std::span<const Sample> samples) {
  Prepared prepared = prepared_best(model);
  calibrate(prepared, samples);
  return prepared;
}

Module converted(const Prepared& prepared) { return convert(prepared, backend_config("x86")); }

double mean_error(const Module& model, const Module& quantized) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(11);
  const at::Tensor input = skewed_images(64);
  return (run(quantized, input) - run(model, input)).mean({0, 2, 3}).square().mean().sqrt().item<double>();
}

class MeanErrors : public ::testing::TestWithParam<const char*> {};

TEST_P(MeanErrors, OfADeepNetworkMostlyGoAway) {
  const Module model = deep_network(GetParam());
  const auto samples = samples_of(16);
  Prepared without_samples = prepared_best(model);
  Module observed = without_samples.module();
  const at::NoGradGuard no_grad;
  for (const Sample& sample : samples) observed.forward(sample);
  EXPECT_LT(mean_error(model, converted(calibrated(model, samples))),
            mean_error(model, converted(without_samples)) / 2);
}

INSTANTIATE_TEST_SUITE_P(Activations, MeanErrors,
                         ::testing::Values("{}", "torch.relu({})", "torch.clamp({}, 0, 6)",
                                           "torch.hardswish({})", "self.prelu.forward({})",
                                           "torch.leaky_relu({}, 0.1)"));

TEST(MeanErrors, FilesKeepThem) {
  const Module model = deep_network("torch.relu({})");
  const Prepared prepared = calibrated(model, samples_of(4));
  const at::Tensor input = torch::randn({2, kChannels, 16, 16});
  const at::Tensor expected = run(converted(prepared), input);
  const testing::TemporaryFolder folder;
  const std::string file = folder.file("stage.pt");
  prepared.save(file);
  const Prepared loaded = Prepared::load(file);
  EXPECT_TRUE(at::equal(run(converted(loaded), input), expected));
  convert_to_reference(loaded, backend_config("x86")).save(file);
  EXPECT_TRUE(at::equal(run(lower(Reference::load(file), backend_config("x86")), input), expected));
}

TEST(MeanErrors, SamplesMayChangeOnceCalibrateIsDone) {
  const Module model = deep_network("torch.relu({})");
  const auto samples = samples_of(4);
  const at::Tensor input = torch::randn({2, kChannels, 16, 16});
  const at::Tensor expected = run(converted(calibrated(model, samples)), input);
  const Prepared prepared = calibrated(model, samples);
  for (const Sample& sample : samples) sample[0].toTensor().zero_();
  EXPECT_TRUE(at::equal(run(converted(prepared), input), expected));
}

TEST(MeanErrors, AreThoseOfAllCallsOfCalibrate) {
  const Module model = deep_network("torch.relu({})");
  const auto samples = samples_of(8);
  Prepared in_parts = prepared_best(model);
  for (const Sample& sample : samples) calibrate(in_parts, std::span(&sample, 1));
  const at::Tensor input = torch::randn({2, kChannels, 16, 16});
  EXPECT_TRUE(at::equal(run(converted(in_parts), input), run(converted(calibrated(model, samples)), input)));
}

TEST(MeanErrors, CallsOfOneLayerKeepOneBias) {
  torch::manual_seed(5);
  Module model = testing::user_module("Twice");
  model.register_module("conv", testing::conv2d(kChannels, kChannels, 3));
  model.define("def forward(self, x):\n  return self.conv.forward(torch.relu(self.conv.forward(x)))\n");
  const Reference reference = convert_to_reference(calibrated(model, samples_of(8)), backend_config("x86"));
  int biases = 0;
  for (const auto& attribute : reference.module().named_attributes())
    biases += attribute.name.find("bias") == std::string::npos ? 0 : 1;
  EXPECT_EQ(biases, 1);
}

TEST(MeanErrors, RecipeFxKeepsNoSamples) {
  Prepared prepared =
      prepare(deep_network("torch.relu({})"), default_qconfig_mapping("x86"), backend_config("x86"));
  calibrate(prepared, samples_of(4));
  EXPECT_TRUE(prepared.stage()->kept_samples.samples().empty());
}

TEST(KeptSamples, AreFewAndEvenlySpread) {
  detail::KeptSamples kept;
  for (int64_t i = 0; i < 1000; ++i) kept.add({i});
  const auto samples = kept.samples();
  ASSERT_GE(samples.size(), 16U);
  ASSERT_LE(samples.size(), 32U);
  const int64_t step = samples[1][0].toInt();
  for (std::size_t i = 0; i < samples.size(); ++i)
    EXPECT_EQ(samples[i][0].toInt(), static_cast<int64_t>(i) * step);
}

TEST(KeptSamples, AreFewerWhereTheyAreLarge) {
  detail::KeptSamples kept;
  for (int i = 0; i < 10; ++i) kept.add({at::empty({30 << 20}, at::kByte)});
  EXPECT_LE(kept.samples().size(), 4U);
}

}  // namespace
}  // namespace tsq
