// Bias correction with the samples that calibrate was given (recipe best).

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <algorithm>

#include "io/samples.h"
#include "ir/analysis.h"
#include "passes/numerics/passes.h"
#include "passes/ranges/passes.h"
#include "passes/weights/passes.h"
#include "pipeline/stage.h"
#include "support/best_model.h"
#include "support/calibrated_model.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"
#include "torchscript/emit.h"

namespace tsq {
namespace mean_errors_test {

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
  return prepare(model, QConfigMapping().set_global(qconfig), backend_config("x86"),
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

/// Calibrated by running its module: nothing knows the samples.
Prepared calibrated_without_keeping(const Module& model, std::span<const Sample> samples) {
  Prepared prepared = prepared_best(model);
  Module observed = prepared.module();
  const at::NoGradGuard no_grad;
  for (const Sample& sample : samples) observed.forward(sample);
  return prepared;
}

TEST_P(MeanErrors, OfADeepNetworkMostlyGoAway) {
  const Module model = deep_network(GetParam());
  const auto samples = samples_of(16);
  EXPECT_LT(mean_error(model, converted(calibrated(model, samples))),
            mean_error(model, converted(calibrated_without_keeping(model, samples))) / 2);
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

/// The biases of all calls of layers.
std::vector<at::Tensor> biases(const ir::Model& model) {
  std::vector<at::Tensor> result;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    const ir::Weighted* weighted =
        ir::is_module_call(node) ? ir::weighted_of(ir::call_of(model, node)) : nullptr;
    if (weighted != nullptr) result.push_back(weighted->bias);
  }
  return result;
}

TEST(MeanErrors, CallsOfOneLayerKeepOneBias) {
  torch::manual_seed(5);
  Module model = testing::user_module("Twice");
  model.register_module("conv", testing::conv2d(kChannels, kChannels, 3));
  model.define("def forward(self, x):\n  return self.conv.forward(torch.relu(self.conv.forward(x)))\n");
  const auto samples = samples_of(8);
  const auto biases_of = [](const Prepared& prepared) {
    const Reference reference = convert_to_reference(prepared, backend_config("x86"));
    return biases(detail::stage_of(reference).model);
  };
  const auto corrected = biases_of(calibrated(model, samples));
  ASSERT_EQ(corrected.size(), 2U);
  EXPECT_TRUE(corrected[0].is_same(corrected[1]));
  EXPECT_FALSE(
      at::allclose(corrected[0], biases_of(calibrated_without_keeping(model, samples))[0], 1e-4, 1e-5))
      << "nothing was corrected";
}

/// A reference of the deep network, which has been calibrated, with samples to measure by.
testing::CalibratedModel before_correction(std::span<const Sample> samples) {
  const Prepared prepared = calibrated(deep_network("torch.relu({})"), samples_of(16));
  testing::CalibratedModel result = testing::calibrated_model(prepared);
  passes::take_channel_statistics(result.model, result.context);
  passes::take_input_products(result.model, result.context);
  result.context.samples = samples;
  passes::keep_before_rounding(result.model, result.context);
  testing::make_reference(result);
  return result;
}

TEST(CorrectMeanErrors, BiasesTakeBackWhatRoundingAddsOverTheSamples) {
  const auto samples = samples_of(16);
  auto [model, context] = before_correction(samples);
  std::size_t parts = 0;
  context.on_part = [&](passes::Part, std::size_t) { ++parts; };
  const Module before = torchscript::emit(model);
  EXPECT_TRUE(passes::correct_mean_errors(model, context));
  EXPECT_EQ(parts, samples.size());
  EXPECT_FALSE(model.mean_errors.empty());
  EXPECT_EQ(model.before_rounding, nullptr);
  const Module network = deep_network("torch.relu({})");
  EXPECT_LT(mean_error(network, torchscript::emit(model)), mean_error(network, before) / 2);
}

TEST(CorrectMeanErrors, KnownErrorsAreTakenAsTheyAre) {
  auto [model, context] = before_correction({});
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_module_call(node) && ir::call_of(model, node).path == "conv0")
      model.mean_errors.emplace(node->output()->debugName(), torch::ones({kChannels}, at::kDouble));
  }
  ASSERT_EQ(model.mean_errors.size(), 1U);
  const auto before = biases(model);
  EXPECT_TRUE(passes::correct_mean_errors(model, context));
  const auto after = biases(model);
  EXPECT_TRUE(at::allclose(after[0], before[0] - 1));
  EXPECT_TRUE(after[1].is_same(before[1]));
}

TEST(CorrectMeanErrors, WithoutSamplesAndKnownErrorsBiasesStay) {
  auto [model, context] = before_correction({});
  const auto before = biases(model);
  EXPECT_FALSE(passes::correct_mean_errors(model, context));
  EXPECT_TRUE(biases(model)[0].is_same(before[0]));
}

TEST(MeanErrors, RecipeFxKeepsNoSamples) {
  Prepared prepared = prepare(deep_network("torch.relu({})"), default_qconfig_mapping("x86"),
                              backend_config("x86"), {.recipe = Recipe::Fx});
  calibrate(prepared, samples_of(4));
  EXPECT_TRUE(detail::stage_of(prepared).kept_samples.samples().empty());
}

/// The sum of each sample that is kept of these.
std::vector<int64_t> sums_of_kept(const std::vector<Sample>& samples) {
  detail::KeptSamples kept;
  for (const Sample& sample : samples) kept.add(sample);
  std::vector<int64_t> sums;
  for (const Sample& sample : kept.samples()) sums.push_back(sample[0].toTensor().sum().item<int64_t>());
  return sums;
}

std::vector<Sample> counted(int64_t count, const std::vector<int64_t>& shape) {
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) samples.push_back({at::full(shape, i % 100, at::kByte)});
  return samples;
}

TEST(KeptSamples, AreFewAndTheSameInWhateverOrderTheyCome) {
  std::vector<Sample> samples = counted(100, {2});
  const std::vector<int64_t> kept = sums_of_kept(samples);
  EXPECT_EQ(kept.size(), 32U);
  std::ranges::reverse(samples);
  EXPECT_EQ(sums_of_kept(samples), kept);
  std::ranges::rotate(samples, samples.begin() + 37);
  EXPECT_EQ(sums_of_kept(samples), kept);
}

TEST(KeptSamples, AreFewerWhereTheyAreLarge) {
  std::vector<Sample> samples = counted(6, {50 << 20});
  const std::vector<int64_t> kept = sums_of_kept(samples);
  EXPECT_EQ(kept.size(), 2U);
  std::ranges::reverse(samples);
  EXPECT_EQ(sums_of_kept(samples), kept);
}

TEST(KeptSamples, HoldEqualSamplesOnce) {
  EXPECT_EQ(sums_of_kept(counted(200, {3})), sums_of_kept(counted(100, {3})));
}

TEST(KeptSamples, TellContentsApart) {
  const auto hash = [](const c10::IValue& value) { return detail::hash_of({value}); };
  const at::Tensor rows = torch::arange(6).reshape({2, 3});
  EXPECT_EQ(hash(rows), hash(rows.t().contiguous().t()));
  EXPECT_NE(hash(rows), hash(rows.reshape({3, 2})));
  EXPECT_NE(hash(rows), hash(rows.to(at::kFloat)));
  EXPECT_NE(hash(c10::ivalue::Tuple::create({rows, 1})), hash(c10::ivalue::Tuple::create({rows, 2})));
  const auto only = [](int64_t column) {
    return torch::eye(3).select(0, column).reshape({1, 3}).to_sparse();
  };
  EXPECT_NE(hash(only(0)), hash(only(1)));
  EXPECT_NE(hash("a"), hash("b"));
  EXPECT_NE(hash(1), hash(true));
}

}  // namespace mean_errors_test
}  // namespace tsq
