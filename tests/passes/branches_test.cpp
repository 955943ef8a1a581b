// What recipe best, and equalization, learn of layers that a branch chooses.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <sstream>

#include "pipeline/engine.h"
#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace {

using torch::jit::Module;

constexpr const char* kEngines[] = {"x86", "fbgemm", "onednn", "qnnpack"};

/// `forward` reads maps of 8 or 16 channels, the layers "narrow" and "wide".
Module layers_of_two_widths(const std::string& forward) {
  torch::manual_seed(3);
  Module model = testing::user_module("TwoWidths");
  model.register_module("narrow", testing::conv2d(8, 4, 1));
  model.register_module("wide", testing::conv2d(16, 4, 1));
  model.register_module("narrow_rows", testing::linear(8, 4));
  model.register_module("wide_rows", testing::linear(16, 4));
  model.define("def forward(self, x):\n" + forward);
  return model;
}

std::vector<Sample> maps(bool are_rows) {
  torch::manual_seed(4);
  std::vector<Sample> samples;
  for (int i = 0; i < 8; ++i) {
    const int64_t channels = i % 2 == 0 ? 8 : 16;
    samples.push_back({are_rows ? torch::randn({12, channels}) : torch::randn({2, channels, 6, 6})});
  }
  return samples;
}

Prepared calibrated(const Module& model, const std::vector<Sample>& samples, const char* engine) {
  Prepared prepared =
      prepare(model, best_qconfig_mapping(engine), backend_config(engine), {}, {}, {.recipe = Recipe::Best});
  calibrate(prepared, samples);
  return prepared;
}

/// Decibels over all samples, on the engine for which `quantized` was made.
double sqnr_of(const Module& model, const Module& quantized, const std::vector<Sample>& samples) {
  std::vector<at::Tensor> wanted;
  std::vector<at::Tensor> got;
  for (const Sample& sample : samples) {
    wanted.push_back(testing::run(model, sample[0].toTensor()).flatten());
    got.push_back(testing::run(quantized, sample[0].toTensor()).flatten());
  }
  return testing::sqnr(at::cat(wanted), at::cat(got));
}

class Branches : public ::testing::TestWithParam<const char*> {
 protected:
  /// The file of recipe best, loaded by LibTorch alone.
  static Module best(const Module& model, const std::vector<Sample>& samples) {
    std::stringstream file;
    convert(calibrated(model, samples, GetParam()), backend_config(GetParam())).save(file);
    return torch::jit::load(file);
  }

 private:
  EngineGuard engine_{backend_config(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(Engines, Branches, ::testing::ValuesIn(kEngines),
                         [](const auto& engine) { return std::string(engine.param); });

TEST_P(Branches, ALayerThatABranchChoosesLearnsFromWhatReachesIt) {
  const at::NoGradGuard no_grad;
  const Module model = layers_of_two_widths(
      "  y = x\n  if x.size(1) == 8:\n    y = self.narrow.forward(x)\n  if x.size(1) == 16:\n    y = "
      "self.wide.forward(x)\n  return y\n");
  const Module quantized = best(model, maps(false));
  EXPECT_EQ(testing::count(quantized, "aten::conv2d"), 0);
  EXPECT_GT(sqnr_of(model, quantized, maps(false)), 30);
}

TEST_P(Branches, ALinearLayerThatABranchChoosesLearnsFromWhatReachesIt) {
  const at::NoGradGuard no_grad;
  const Module model = layers_of_two_widths(
      "  y = x\n  if x.size(1) == 8:\n    y = self.narrow_rows.forward(x)\n  else:\n    y = "
      "self.wide_rows.forward(x)\n  return y\n");
  EXPECT_GT(sqnr_of(model, best(model, maps(true)), maps(true)), 30);
}

TEST(BranchesOfEqualization, ALayerThatABranchChoosesIsEqualizedByWhatReachesIt) {
  const at::NoGradGuard no_grad;
  const Module model = layers_of_two_widths(
      "  y = x\n  if x.size(1) == 8:\n    y = self.narrow_rows.forward(x)\n  return y\n");
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {},
                              EqualizationMapping().set_global(default_equalization_qconfig()));
  calibrate(prepared, maps(true));
  EXPECT_GT(sqnr_of(model, convert(prepared, backend), maps(true)), 25);
}

}  // namespace
}  // namespace tsq
