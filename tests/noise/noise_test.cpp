// What roundings add to a model's outputs, predicted by gradients and measured by running it.

#include "noise/noise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/analysis.h"
#include "support/before_pass.h"
#include "support/rank_correlation.h"
#include "support/small_models.h"

namespace tsq {
namespace noise_test {

using noise::NoiseModel;
using testing::CalibratedModel;
using torch::jit::Module;

std::vector<Sample> samples_like(const at::Tensor& example, std::size_t count = 8) {
  torch::manual_seed(21);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < count; ++i) samples.push_back({torch::randn(example.sizes())});
  return samples;
}

CalibratedModel calibrated(const Module& model, const std::vector<Sample>& samples) {
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend_config("x86"));
  calibrate(prepared, samples);
  return testing::before_pass(prepared, "leave_float_islands");
}

double decibels(double share) { return -10 * std::log10(share); }

/// Convolutions with a residual, an activation that bends, a mean over the image and a linear layer.
Module network() {
  torch::manual_seed(4);
  const at::NoGradGuard no_gradients;
  Module model = testing::user_module("Network");
  model.register_module("first", testing::conv2d(3, 16, 3));
  model.register_module("second", testing::conv2d(16, 16, 1));
  model.register_module("third", testing::conv2d(16, 24, 3));
  model.register_module("last", testing::linear(24, 10));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.relu(self.first.forward(x))\n"
      "  z = torch.silu(self.second.forward(y)) + y\n"
      "  return self.last.forward(torch.sigmoid(self.third.forward(z)).mean([2, 3]))\n");
  testing::scale_as_trained(model);
  return model;
}

TEST(Noise, IsPredictedAsItIsMeasured) {
  const std::vector<Sample> samples = samples_like(torch::empty({1, 3, 12, 12}), 16);
  const CalibratedModel model = calibrated(network(), samples);
  const NoiseModel noise(model.model, samples, {.projections = 8});
  ASSERT_THAT(noise.outputs(), ::testing::SizeIs(1));
  std::vector<double> predicted;
  std::vector<double> measured;
  std::vector<double> errors;
  for (const ir::Node* node : noise.roundings()) {
    EXPECT_FALSE(noise.of(node)->is_measured);
    predicted.push_back(noise.of(node)->of_outputs.front());
    measured.push_back(noise.measured({node}).front());
    errors.push_back(std::abs(decibels(predicted.back()) - decibels(measured.back())));
  }
  EXPECT_GE(predicted.size(), 8U);
  EXPECT_GE(testing::rank_correlation(predicted, measured), 0.9);
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 2);
}

TEST(Noise, IsPredictedWhereTheCallerComputesWithoutGradients) {
  const at::NoGradGuard no_gradients;
  const std::vector<Sample> samples = samples_like(torch::empty({1, 3, 12, 12}), 2);
  const CalibratedModel model = calibrated(network(), samples);
  const NoiseModel noise(model.model, samples);
  for (const ir::Node* node : noise.roundings()) EXPECT_FALSE(noise.of(node)->is_measured);
}

TEST(Noise, OfRoundingsAddsUp) {
  const std::vector<Sample> samples = samples_like(torch::empty({1, 3, 12, 12}), 16);
  const CalibratedModel model = calibrated(network(), samples);
  const NoiseModel noise(model.model, samples);
  const std::unordered_set<const ir::Node*> all(noise.roundings().begin(), noise.roundings().end());
  EXPECT_NEAR(decibels(noise.predicted(all).front()), decibels(noise.measured(all).front()), 3);
  EXPECT_EQ(noise.measured({}).front(), 0);
}

TEST(Noise, IsThatOfEachOutput) {
  torch::manual_seed(4);
  Module model = testing::user_module("Two");
  model.register_module("one", testing::linear(8, 8));
  model.register_module("other", testing::linear(8, 8));
  model.define("def forward(self, x):\n  return (self.one.forward(x), {'other': self.other.forward(x)})\n");
  const std::vector<Sample> samples = samples_like(torch::empty({4, 8}));
  const CalibratedModel calibrated_model = calibrated(model, samples);
  const NoiseModel noise(calibrated_model.model, samples);
  ASSERT_THAT(noise.outputs(), ::testing::SizeIs(2));
  const auto shares = [&](const char* layer) {
    return noise.of(testing::call_node(calibrated_model.model, layer))->of_outputs;
  };
  EXPECT_GT(shares("one")[0], 0);
  EXPECT_EQ(shares("one")[1], 0);
  EXPECT_EQ(shares("other")[0], 0);
  EXPECT_GT(shares("other")[1], 0);
}

TEST(Noise, IsMeasuredWhereNoGradientComes) {
  torch::manual_seed(4);
  Module model = testing::user_module("Steps");
  model.register_module("one", testing::linear(8, 8));
  model.register_module("two", testing::linear(8, 8));
  model.define("def forward(self, x):\n  return self.two.forward(torch.floor(4 * self.one.forward(x)))\n");
  const std::vector<Sample> samples = samples_like(torch::empty({4, 8}));
  const CalibratedModel calibrated_model = calibrated(model, samples);
  const NoiseModel noise(calibrated_model.model, samples);
  const noise::Shares* one = noise.of(testing::call_node(calibrated_model.model, "one"));
  EXPECT_TRUE(one->is_measured);
  EXPECT_GT(one->of_outputs.front(), 0);
  EXPECT_FALSE(noise.of(testing::call_node(calibrated_model.model, "two"))->is_measured);
}

TEST(Noise, IsMeasuredAfterASaturatedSoftmax) {
  torch::manual_seed(4);
  Module model = testing::user_module("Saturated");
  for (const char* name : {"one", "two", "three"}) model.register_module(name, testing::linear(8, 8));
  model.define(
      "def forward(self, x):\n"
      "  y = self.two.forward(torch.relu(self.one.forward(x)))\n"
      "  return torch.softmax(400 * self.three.forward(y), -1)\n");
  const std::vector<Sample> samples = samples_like(torch::empty({4, 8}));
  const CalibratedModel calibrated_model = calibrated(model, samples);
  const NoiseModel noise(calibrated_model.model, samples);
  for (const ir::Node* node : noise.roundings()) EXPECT_TRUE(noise.of(node)->is_measured);
}

TEST(Noise, OfLabelsIsNotTold) {
  torch::manual_seed(4);
  Module model = testing::user_module("Labels");
  model.register_module("one", testing::linear(8, 8));
  model.define("def forward(self, x):\n  return self.one.forward(x).argmax(-1)\n");
  const std::vector<Sample> samples = samples_like(torch::empty({4, 8}));
  const CalibratedModel calibrated_model = calibrated(model, samples);
  EXPECT_THAT(NoiseModel(calibrated_model.model, samples).outputs(), ::testing::IsEmpty());
}

TEST(Noise, SamplesMayHaveOtherSizes) {
  torch::manual_seed(4);
  Module model = testing::user_module("Masked");
  model.register_module("one", testing::linear(8, 8));
  model.define("def forward(self, x, m):\n  return torch.relu(self.one.forward(x)).sum(-1) * m\n");
  std::vector<Sample> samples;
  for (const int64_t rows : {4, 6, 5, 4})
    samples.push_back({torch::randn({2, rows, 8}), torch::rand({2, rows})});
  const CalibratedModel calibrated_model = calibrated(model, samples);
  const NoiseModel noise(calibrated_model.model, samples, {.corrects_means = true});
  EXPECT_GT(noise.of(testing::call_node(calibrated_model.model, "one"))->of_outputs.front(), 0);
}

TEST(Noise, WhatAClampCutsOffIsNoMeanError) {
  torch::manual_seed(4);
  const at::NoGradGuard no_gradients;
  Module model = testing::user_module("Hardswish");
  model.register_module("one", testing::conv2d(3, 8, 3));
  model.register_module("two", testing::conv2d(8, 4, 1));
  model.define(
      "def forward(self, x):\n  return "
      "self.two.forward(torch.hardswish(self.one.forward(x)))\n");
  const std::vector<Sample> samples = samples_like(torch::empty({1, 3, 12, 12}));
  const CalibratedModel calibrated_model = calibrated(model, samples);
  const NoiseModel plain(calibrated_model.model, samples);
  const NoiseModel corrected(calibrated_model.model, samples, {.corrects_means = true});
  for (const ir::Node* node : plain.roundings()) {
    if (!ir::is_observer(node)) continue;
    EXPECT_LT(corrected.of(node)->of_outputs.front(), 2 * plain.of(node)->of_outputs.front());
  }
}

TEST(Noise, LeavesSamplesAlone) {
  torch::manual_seed(4);
  Module model = testing::user_module("Writes");
  model.register_module("one", testing::linear(8, 8));
  model.define("def forward(self, x, n):\n  n.add_(1)\n  return self.one.forward(x) * n\n");
  std::vector<Sample> samples;
  for (int i = 0; i < 3; ++i) samples.push_back({torch::randn({4, 8}), torch::ones({1}, at::kLong)});
  const CalibratedModel calibrated_model = calibrated(model, samples);
  const NoiseModel noise(calibrated_model.model, samples);
  for (const Sample& sample : samples) EXPECT_EQ(sample[1].toTensor().item<int64_t>(), 1);
}

TEST(Noise, OfAModelThatKeepsStateBeginsWithItsState) {
  torch::manual_seed(4);
  Module model = testing::user_module("Keeps");
  model.register_module("one", testing::linear(8, 8));
  model.register_buffer("last", torch::zeros({4, 8}));
  model.define(
      "def forward(self, x):\n"
      "  self.last = torch.tanh(self.one.forward(x)) + 0.5 * self.last\n"
      "  return self.last\n");
  const std::vector<Sample> samples = samples_like(torch::empty({4, 8}));
  const CalibratedModel calibrated_model = calibrated(model, samples);
  const NoiseModel noise(calibrated_model.model, samples);
  EXPECT_FALSE(noise.of(testing::call_node(calibrated_model.model, "one"))->is_measured);
}

TEST(Noise, LeavesTheModelAlone) {
  const std::vector<Sample> samples = samples_like(torch::empty({1, 3, 12, 12}), 2);
  const CalibratedModel model = calibrated(network(), samples);
  const std::string before = model.model.graph->toString();
  std::vector<at::Tensor> weights;
  for (const ir::ModuleCall& call : model.model.calls) {
    if (const ir::Weighted* weighted = ir::weighted_of(call)) weights.push_back(weighted->weight.clone());
  }
  const NoiseModel noise(model.model, samples);
  (void)noise.measured({noise.roundings().front()});
  EXPECT_EQ(model.model.graph->toString(), before);
  std::size_t i = 0;
  for (const ir::ModuleCall& call : model.model.calls) {
    const ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr) continue;
    EXPECT_FALSE(weighted->weight.requires_grad());
    EXPECT_TRUE(weighted->weight.equal(weights[i++]));
  }
}

TEST(Noise, IsTheSameEachTime) {
  const std::vector<Sample> samples = samples_like(torch::empty({1, 3, 12, 12}), 4);
  const CalibratedModel model = calibrated(network(), samples);
  const NoiseModel one(model.model, samples);
  const NoiseModel other(model.model, samples);
  for (const ir::Node* node : one.roundings())
    EXPECT_EQ(one.of(node)->of_outputs, other.of(node)->of_outputs);
}

TEST(Noise, ASampleThatTheModelRefusesIsNamed) {
  const CalibratedModel model = calibrated(network(), samples_like(torch::empty({1, 3, 12, 12}), 2));
  try {
    const NoiseModel noise(model.model, samples_like(torch::empty({1, 5, 12, 12}), 2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadData);
    EXPECT_THAT(error.problem(), ::testing::HasSubstr("sample 0"));
  }
}

}  // namespace noise_test
}  // namespace tsq
