// Networks over signals in recipe best: transforms, layouts, and operators that stand for several.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <numbers>

#include "passes/tune/passes.h"
#include "support/best_model.h"
#include "support/calibrated_model.h"
#include "support/lowered.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace signals_test {

using testing::best_model;
using testing::count;
using torch::jit::Module;

constexpr int64_t kLength = 16;
constexpr int64_t kFrequencies = kLength / 2 + 1;

/// Windowed cosines, and negative sines, as an STFT has them: [2 · frequencies, 1, length].
at::Tensor fourier_basis() {
  const at::Tensor phase =
      torch::arange(kFrequencies).unsqueeze(1) * torch::arange(kLength) * (2 * std::numbers::pi / kLength);
  const at::Tensor window = torch::hann_window(kLength) + 0.01;
  return (torch::cat({phase.cos(), -phase.sin()}) * window).unsqueeze(1).to(torch::kFloat);
}

/// `body` computes y from self.basis (an STFT), self.first (9 → 16, kernel 3), self.second (16 → 16, kernel
/// 3), self.head (9 → 4, linear) and x.
Module network(const std::string& body, const at::Tensor& basis = fourier_basis()) {
  torch::manual_seed(1);
  Module model = testing::user_module("Signals");
  model.register_buffer("basis", basis);
  const auto weight = [&](const char* name, at::IntArrayRef sizes) {
    model.register_parameter(name, torch::randn(sizes) / 5, false);
  };
  weight("first", {16, kFrequencies, 3});
  weight("second", {16, 16, 3});
  weight("bias", {16});
  model.register_module("head", testing::linear(kFrequencies, 4));
  model.define("def forward(self, x):\n" + body + "  return y\n");
  return model;
}

at::Tensor signal(at::IntArrayRef sizes) {
  torch::manual_seed(2);
  return torch::randn(sizes);
}

double sqnr(const Module& model, const Module& lowered, const at::Tensor& input) {
  return testing::sqnr(testing::run(model, input), testing::run(lowered, input));
}

const std::string kMagnitude =
    "  z = torch.conv1d(x, self.basis, None, [8])\n"
    "  z = torch.sqrt(z[:, :9] ** 2 + z[:, 9:] ** 2)\n";
const std::string kLayers =
    "  z = torch.relu(torch.conv1d(z, self.first, self.bias, [1], [1]))\n"
    "  y = torch.conv1d(z, self.second, self.bias, [1], [1])\n";

class Spectrum : public ::testing::TestWithParam<const char*> {};

TEST_P(Spectrum, OfAnStftSpeltAsAConvolutionIsAFourierTransform) {
  const Module model = network(kMagnitude + kLayers);
  const at::Tensor input = signal({2, 1, 256});
  const Module lowered = best_model(model, input, GetParam());
  EXPECT_EQ(count(lowered, "aten::stft"), 1U);
  EXPECT_EQ(count(lowered, "aten::abs"), 1U);
  EXPECT_EQ(count(lowered, "aten::slice") + count(lowered, "aten::pow") + count(lowered, "aten::sqrt"), 0U);
  EXPECT_GT(sqnr(model, lowered, input), 33);
}

INSTANTIATE_TEST_SUITE_P(Engines, Spectrum, ::testing::Values("x86", "fbgemm", "onednn", "qnnpack"));

TEST(Spectrum, IsReportedAsWhatComputesIt) {
  Report report;
  testing::lowered(testing::best_reference(network(kMagnitude + kLayers), signal({2, 1, 64}), "x86"),
                   backend_config("x86"), &report);
  EXPECT_THAT(report.to_text(), ::testing::HasSubstr("computed by torch.stft"));
}

TEST(Spectrum, ThatIsWrittenIntoIsReadWhole) {
  const Module model = network(
      "  z = torch.conv1d(x, self.basis, None, [8])\n"
      "  z[:, 9:] *= 0.5\n"
      "  z = torch.sqrt(z[:, :9] ** 2 + z[:, 9:] ** 2)\n" +
      kLayers);
  const at::Tensor input = signal({2, 1, 256});
  EXPECT_GT(sqnr(model, best_model(model, input, "x86"), input), 33);
}

TEST(Spectrum, WithoutABatchHasItsFiltersInFront) {
  const Module model = network(
      "  z = torch.conv1d(x, self.basis, None, [8])\n"
      "  z = torch.sqrt(z[..., :9, :] ** 2 + z[..., 9:, :] ** 2)\n"
      "  y = self.head.forward(torch.log(z + 1.).transpose(-1, -2))\n");
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2, 1, 64}, std::vector<int64_t>{1, 64}}) {
    const Module lowered = best_model(model, signal(sizes), "x86");
    EXPECT_EQ(count(lowered, "aten::stft"), 1U);
    EXPECT_EQ(count(lowered, "aten::cat"), 0U);
    EXPECT_GT(sqnr(model, lowered, signal(sizes)), 33);
  }
}

TEST(Spectrum, ReadsSignalsBeforeAChannelIsPutIn) {
  for (const char* padded : {"x.unsqueeze(1)", "torch.pad(x.unsqueeze(1), [0, 6], 'reflect')"}) {
    const Module model = network("  x = " + std::string(padded) + "\n" + kMagnitude + kLayers);
    const at::Tensor input = signal({2, 256});
    const Module lowered = best_model(model, input, "fbgemm");
    EXPECT_EQ(count(lowered, "aten::stft"), 1U) << padded;
    EXPECT_EQ(count(lowered, "aten::unsqueeze"), 1U) << padded;  // the image
    EXPECT_EQ(count(lowered, "aten::squeeze"), 1U) << padded;
    EXPECT_GT(sqnr(model, lowered, input), 33) << padded;
  }
}

TEST(Spectrum, OfSignalsThatArePaddedInAnotherWayIsTheSame) {
  const Module model =
      network("  x = torch.pad(x.unsqueeze(1), [6, 6], 'circular')\n" + kMagnitude + kLayers);
  const at::Tensor input = signal({2, 256});
  const Module lowered = best_model(model, input, "fbgemm");
  EXPECT_EQ(count(lowered, "aten::stft"), 1U);
  EXPECT_GT(sqnr(model, lowered, input), 33);
}

TEST(Spectrum, WhoseHalvesAreNotToldApartIsReadWhole) {
  // Without a batch the slices would take windows.
  const Module model = network(
      "  z = torch.conv1d(x, self.basis, None, [8])\n"
      "  y = self.head.forward(torch.sqrt(z[:, :9] ** 2 + 1.).transpose(-1, -2)[..., :9])\n");
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2, 1, 64}, std::vector<int64_t>{9, 1, 64}}) {
    const Module lowered = best_model(model, signal(sizes), "x86");
    EXPECT_EQ(count(lowered, "aten::cat"), 1U);
    EXPECT_GT(sqnr(model, lowered, signal(sizes)), 33);
  }
}

TEST(Spectrum, OfTwoConvolutionsIsThatOfTheirParts) {
  const at::Tensor basis = fourier_basis();
  Module split = testing::user_module("Split");
  split.register_buffer("cosines", basis.slice(0, 0, kFrequencies).clone());
  split.register_buffer("sines", -basis.slice(0, kFrequencies).clone());
  split.register_module("head", testing::linear(kFrequencies, 4));
  split.define(
      "def forward(self, x):\n"
      "  re = torch.conv1d(x, self.cosines, None, [8])\n"
      "  im = torch.conv1d(x, self.sines, None, [8])\n"
      "  return self.head.forward(torch.sqrt(re ** 2 + im ** 2).transpose(-1, -2))\n");
  const Module lowered = best_model(split, signal({2, 1, 64}), "x86");
  EXPECT_EQ(count(lowered, "aten::real"), 1U);
  EXPECT_EQ(count(lowered, "aten::imag"), 1U);
  EXPECT_GT(sqnr(split, lowered, signal({2, 1, 64})), 33);
}

TEST(Spectrum, OfATrainedBasisIsNoFourierTransform) {
  at::Tensor trained = fourier_basis();
  trained[3][0][5] += 1e-4;
  const Module model = network(kMagnitude + kLayers, trained);
  EXPECT_EQ(count(best_model(model, signal({2, 1, 64}), "x86"), "aten::stft"), 0U);
}

/// A model with a quantized operator, as passes find it that were called to make it faster.
ir::Model with_quantized_operator(const Module& module) {
  ir::Model model = testing::normalised(module);
  model.records.push_back({.is_reported = true, .decision = {.quantized = true}});
  return model;
}

TEST(TransformFilterBanks, ThePassPutsATransformInThePlaceOfWindowedWaves) {
  ir::Model model = with_quantized_operator(network(kMagnitude + kLayers));
  EXPECT_TRUE(passes::transform_filter_banks(model, {}));
  EXPECT_EQ(count(model, "aten::stft"), 1U);
  EXPECT_EQ(count(model, "aten::conv1d"), 2U);
}

TEST(TransformFilterBanks, ThePassLeavesOtherFiltersAndModelsWithoutQuantizedOperators) {
  at::Tensor trained = fourier_basis();
  trained[3][0][5] += 1e-4;
  ir::Model of_other_filters = with_quantized_operator(network(kMagnitude + kLayers, trained));
  EXPECT_FALSE(passes::transform_filter_banks(of_other_filters, {}));
  ir::Model in_float = testing::normalised(network(kMagnitude + kLayers));
  EXPECT_FALSE(passes::transform_filter_banks(in_float, {}));
  EXPECT_EQ(count(in_float, "aten::conv1d"), 3U);
}

class Signals : public ::testing::TestWithParam<const char*> {};

TEST_P(Signals, AreImagesOfHeightOneFromOneConvolutionToTheNext) {
  const Module model = network(
      "  z = torch.relu(torch.conv1d(x.transpose(1, 2), self.first, self.bias, [2], [1]))\n"
      "  y = torch.conv1d(z, self.second, self.bias, [1], [2], [2]) + z\n");
  const at::Tensor input = signal({2, 30, kFrequencies});
  const Module lowered = best_model(model, input, GetParam());
  for (const char* kind : {"quantized::conv1d", "quantized::conv1d_relu", "onednn::qconv1d_pointwise"})
    EXPECT_EQ(count(lowered, kind), 0U) << kind;
  EXPECT_EQ(count(lowered, "aten::unsqueeze"), 1U);
  EXPECT_EQ(count(lowered, "aten::squeeze"), 1U);
  EXPECT_GT(sqnr(model, lowered, input), 33);
}

INSTANTIATE_TEST_SUITE_P(Engines, Signals, ::testing::Values("x86", "fbgemm", "onednn", "qnnpack"));

TEST(Signals, KeepTheirDimensionsWhereAConvolutionIsOneOfTwoWays) {
  const Module model = network(
      "  if x.dim() == 3:\n"
      "    y = torch.conv1d(x, self.first, self.bias)\n"
      "  else:\n"
      "    y = self.head.forward(x.reshape([1, 9]))\n");
  const Module lowered = best_model(model, signal({2, kFrequencies, 30}), "x86");
  EXPECT_EQ(count(lowered, "quantized::conv2d"), 1U);
  EXPECT_EQ(testing::run(lowered, signal({kFrequencies})).sizes(), at::IntArrayRef({1, 4}));
}

TEST(Signals, LoseTheirHeightTogetherWithAnotherDimension) {
  for (const char* dim : {"2", "-1"}) {
    const Module model = network("  z = x\n" + kLayers + "  y = y.squeeze(" + dim + ")\n");
    const at::Tensor input = signal({2, kFrequencies, 1});
    const Module lowered = best_model(model, input, "fbgemm");
    EXPECT_EQ(count(lowered, "aten::squeeze"), 1U) << dim;
    EXPECT_EQ(testing::run(lowered, input).sizes(), at::IntArrayRef({2, 16})) << dim;
  }
  const Module kept = best_model(network("  z = x\n" + kLayers + "  y = y.squeeze(-2).squeeze(1)\n"),
                                 signal({2, kFrequencies, 5}), "fbgemm");
  EXPECT_EQ(testing::run(kept, signal({2, kFrequencies, 5})).sizes(), at::IntArrayRef({2, 16, 5}));
}

TEST(Signals, AreReportedWithTheKernelThatRuns) {
  const Module model = network("  z = x\n" + kLayers);
  const at::Tensor input = signal({2, kFrequencies, 30});
  const Reference reference = testing::best_reference(model, input, "fbgemm");
  Report report;
  testing::lowered(reference, backend_config("fbgemm"), &report);
  EXPECT_THAT(report.to_text(), ::testing::HasSubstr("quantized::conv2d"));
  EXPECT_THAT(report.to_text(), ::testing::Not(::testing::HasSubstr("quantized::conv1d")));
}

std::size_t averages(const std::string& rest) {
  const Module model = network("  z = x\n" + kLayers + rest);
  const at::Tensor input = signal({2, kFrequencies, 30});
  const Module lowered = best_model(model, input, "fbgemm");
  EXPECT_GT(sqnr(model, lowered, input), 25) << rest;
  EXPECT_EQ(count(lowered, "aten::avg_pool1d") + count(lowered, "aten::mean"), 1U) << rest;
  return count(lowered, "aten::avg_pool1d");
}

TEST(PoolAverages, OfASignalsLengthIsAPool) {
  EXPECT_EQ(averages("  y = torch.mean(torch.sigmoid(y), [2], True)\n"), 1U);
  EXPECT_EQ(averages("  y = torch.mean(torch.sigmoid(y), [-1], True)\n"), 1U);
}

TEST(PoolAverages, OfOtherDimensionsIsNone) {
  EXPECT_EQ(averages("  y = torch.mean(torch.sigmoid(y), [1], True)\n"), 0U);
  EXPECT_EQ(averages("  y = torch.mean(torch.sigmoid(y), [2])\n"), 0U);
  EXPECT_EQ(averages("  y = torch.mean(torch.sigmoid(y), [1, 2], True)\n"), 0U);
  // Of sixteen channels none is taken out.
  EXPECT_EQ(averages("  y = torch.mean(torch.sigmoid(y).squeeze(1), [1], True)\n"), 0U);
}

TEST(PoolAverages, OfAnOnlyChannelIsOneWithoutItAsWell) {
  Module model = testing::user_module("Detector");
  model.register_parameter("weight", torch::randn({1, kFrequencies, 3}) / 5, false);
  model.define(
      "def forward(self, x):\n"
      "  return torch.mean(torch.sigmoid(torch.conv1d(x, self.weight)).squeeze(1), [1], True)\n");
  const at::Tensor input = signal({2, kFrequencies, 30});
  const Module lowered = best_model(model, input, "fbgemm");
  EXPECT_EQ(count(lowered, "aten::avg_pool1d"), 1U);
  EXPECT_EQ(testing::run(lowered, input).sizes(), at::IntArrayRef({2, 1}));
  EXPECT_GT(sqnr(model, lowered, input), 25);
}

TEST(MaximumOfStack, IsTakenWithoutStacking) {
  for (const auto& [choose, operator_name] :
       {std::pair{"torch.max(s, 2)[0]", "aten::maximum"}, std::pair{"torch.min(s, 2)[0]", "aten::minimum"},
        std::pair{"torch.amax(s, [2])", "aten::maximum"}, std::pair{"torch.amin(s, 2)", "aten::minimum"}}) {
    const Module model = network(
        "  z = torch.relu(torch.conv1d(x.transpose(0, 1).unsqueeze(0), self.first))\n"  // in int8
        "  a = self.head.forward(x)\n"
        "  s = torch.stack([a, a * a, 1. - a], 2)\n"
        "  y = " +
        std::string(choose) + " + z.mean()\n");
    const at::Tensor input = signal({30, kFrequencies});
    const Module lowered = best_model(model, input, "x86");
    EXPECT_EQ(count(lowered, "aten::stack"), 0U) << choose;
    EXPECT_EQ(count(lowered, operator_name), 2U) << choose;
    EXPECT_GT(sqnr(model, lowered, input), 33) << choose;
  }
}

TEST(MaximumOfStack, IsLeftWhereItsPlaceIsAskedForToo) {
  for (const char* body : {"  y, i = torch.max(s, 2)\n  y = y + i\n", "  y = torch.max(s, 1)[0]\n",
                           "  y = torch.max(s, 2, True)[0]\n", "  y = torch.max(s, 2)[0] + s[:, :, 0]\n"}) {
    const Module model = network(
        "  a = self.head.forward(x)\n"
        "  s = torch.stack([a, a * a], 2)\n" +
        std::string(body));
    const Module lowered = best_model(model, signal({30, kFrequencies}), "x86");
    EXPECT_EQ(count(lowered, "aten::stack"), 1U) << body;
  }
}

TEST(DropIdentities, SlicesOfAllThereIsGoAway) {
  const Module model = network("  y = self.head.forward(x[:, :, :9][:, 0:])\n");
  const at::Tensor input = signal({2, 5, 12});
  const Module lowered = best_model(model, input, "x86");
  EXPECT_EQ(count(lowered, "aten::slice"), 1U);
  EXPECT_GT(sqnr(model, lowered, input), 33);
}

TEST(SaturateClamps, AReluWhoseOutputIsMovedBeforeItIsRoundedGoesAway) {
  for (const std::string moved : {"z.transpose(1, 2).unsqueeze(0).squeeze(0)",
                                  "z.view(2, 30, 9).transpose(1, 2)", "z[:, 5:25].transpose(1, 2)"}) {
    const Module model =
        network("  z = torch.relu(torch.layer_norm(x, [9]))\n  z = " + moved + "\n" + kLayers);
    const at::Tensor input = signal({2, 30, kFrequencies});
    const Module lowered = best_model(model, input, "x86");
    EXPECT_EQ(count(lowered, "aten::relu"), 0U) << moved;
    EXPECT_GT(sqnr(model, lowered, input), 33) << moved;
  }
}

}  // namespace signals_test
}  // namespace tsq
