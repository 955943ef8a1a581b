// A scale for each channel of what a depthwise layer reads.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <string>

#include "pipeline/stage.h"
#include "support/calibrated_model.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace scale_depthwise_inputs_test {

using torch::jit::Module;

constexpr int64_t kWidth = 16;
const std::string kScaled = "each channel of its input has a scale of its own";

/// 1x1 (3 → 16), `activation`, depthwise 3x3, 1x1. The channels after the activation reach from 0.03 to 30,
/// those after the depthwise layer are alike.
Module separable(const std::string& activation, const std::string& between = "") {
  torch::manual_seed(21);
  const c10::NoGradGuard no_grad;
  Module model = testing::user_module("Separable");
  const at::Tensor widths = torch::logspace(-1.5, 1.5, kWidth).reshape({kWidth, 1, 1, 1});
  Module first = testing::conv2d(3, kWidth, 1);
  first.attr("weight").toTensor().mul_(widths);
  first.attr("bias").toTensor().mul_(widths.flatten());
  model.register_module("first", first);
  Module depthwise = testing::conv2d(1, kWidth, 3);
  depthwise.attr("weight").toTensor().div_(widths.clamp_min(0.2));
  depthwise.setattr("groups", kWidth);
  model.register_module("depthwise", depthwise);
  model.register_module("last", testing::conv2d(kWidth, 4, 1));
  model.define("def forward(self, x):\n  y = torch." + activation + "(self.first.forward(x))\n" + between +
               "  return self.last.forward(self.depthwise.forward(y))\n");
  model.eval();
  return model;
}

std::vector<Sample> images(int64_t seed) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  std::vector<Sample> result;
  for (int i = 0; i < 8; ++i) result.push_back({torch::randn({2, 3, 9, 9})});
  return result;
}

/// Sixteen items, each with another channel that is wide in no other.
std::vector<Sample> items_of_their_own() {
  torch::manual_seed(5);
  std::vector<Sample> result;
  for (int64_t i = 0; i < kWidth; ++i) {
    const at::Tensor x = 0.05 * torch::randn({1, kWidth, 9, 9});
    x[0][i].mul_(100);
    result.push_back({x});
  }
  return result;
}

/// separable, whose first layer hands its sixteen channels on.
Module passing(const std::string& activation) {
  Module model = separable(activation);
  Module first = model.attr("first").toModule();
  first.setattr("weight", torch::eye(kWidth).reshape({kWidth, kWidth, 1, 1}));
  first.setattr("bias", torch::zeros({kWidth}));
  return model;
}

Prepared calibrated(const Module& model, LoweringTarget target, const std::vector<Sample>& samples,
                    std::optional<double> margin = std::nullopt) {
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend_config("x86"),
                              {.target = target,
                               .machine = testing::slow_in_float(),
                               .cross_layer_margin = margin,
                               .weight_rounding = WeightRounding::Nearest});
  calibrate(prepared, samples);
  return prepared;
}

Reference reference_of(const Prepared& prepared) {
  return convert_to_reference(prepared, backend_config("x86"));
}

std::string reported(const Reference& reference) {
  return testing::reported_equalization(detail::stage_of(reference).model, "depthwise");
}

double error(Module model, Module rounded) {
  double sum = 0;
  for (const Sample& sample : images(99))
    sum +=
        (rounded.forward(sample).toTensor() - model.forward(sample).toTensor()).square().sum().item<double>();
  return sum;
}

TEST(ScaleDepthwiseInputs, LessIsLostAfterActivationsThatNoFactorPasses) {
  for (const std::string activation : {"hardswish", "silu"}) {
    const Module model = separable(activation);
    const Reference scaled = reference_of(calibrated(model, LoweringTarget::Fused, images(3)));
    EXPECT_EQ(reported(scaled), kScaled) << activation;
    const Reference plain = reference_of(calibrated(model, LoweringTarget::Fused, images(3), 1e9));
    EXPECT_NE(reported(plain), kScaled) << "no room";
    EXPECT_LT(error(model, scaled.module()), 0.5 * error(model, plain.module())) << activation;
  }
}

TEST(ScaleDepthwiseInputs, ZerosThatArePaddedBeforeTheLayerStayZeros) {
  const std::string pad = "  y = torch.constant_pad_nd(y, [0, 1, 0, 1], 0.0)\n";
  for (const std::string activation : {"hardswish", "silu"}) {
    const Module model = separable(activation, pad);
    const Reference scaled = reference_of(calibrated(model, LoweringTarget::Fused, images(3)));
    EXPECT_EQ(reported(scaled), kScaled) << activation;
    const Reference plain = reference_of(calibrated(model, LoweringTarget::Fused, images(3), 1e9));
    EXPECT_LT(error(model, scaled.module()), 0.5 * error(model, plain.module())) << activation;
  }
}

TEST(ScaleDepthwiseInputs, OfKernelsThatMultiplyNothingBeforeTheyRoundTheyAreNotScaled) {
  EXPECT_NE(reported(reference_of(calibrated(separable("hardswish"), LoweringTarget::Stock, images(3)))),
            kScaled);
}

TEST(ScaleDepthwiseInputs, RangesThatOtherItemsLeaveAreNotTaken) {
  EXPECT_NE(
      reported(reference_of(calibrated(passing("hardswish"), LoweringTarget::Fused, items_of_their_own()))),
      kScaled);
}

TEST(ScaleDepthwiseInputs, AFileHoldsWhatWasMeasured) {
  const testing::TemporaryFolder folder;
  const Prepared prepared = calibrated(separable("hardswish"), LoweringTarget::Fused, images(3));
  const std::string path = folder.file("prepared.pt");
  prepared.save(path);
  const Reference loaded = reference_of(Prepared::load(path));
  EXPECT_EQ(reported(loaded), kScaled);
  Module a = reference_of(prepared).module();
  Module b = loaded.module();
  const Sample sample = images(4).front();
  EXPECT_TRUE(at::equal(a.forward(sample).toTensor(), b.forward(sample).toTensor()));
}

}  // namespace scale_depthwise_inputs_test
}  // namespace tsq
