#include "backends/kernels/packed.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include <sstream>
#include <string>

#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace packed_test {

TEST(Packed, QuantizesChannelsToTheBitsOfLibTorch) {
  at::manual_seed(0);
  for (int round = 0; round < 50; ++round) {
    ir::Weighted weighted;
    const int64_t axis = round % 2;
    weighted.weight = at::randn({7, 5, 3, 3});
    QParams qparams{.scale = at::rand({axis == 0 ? 7 : 5}) * 0.05 + 1e-4,
                    .dtype = c10::ScalarType::QInt8,
                    .qscheme = c10::QScheme::PER_CHANNEL_AFFINE,
                    .axis = axis};
    qparams.zero_point = at::randint(-9, 9, {axis == 0 ? 7 : 5}, at::kLong);
    // Half of the values lie exactly between two codes.
    if (round % 3 == 0) {
      qparams.scale.fill_(0.25);
      weighted.weight = at::randint(-400, 400, {7, 5, 3, 3}).to(at::kFloat) * 0.125;
    }
    weighted.weight_qparams = qparams;
    const at::Tensor expected = at::quantize_per_channel(weighted.weight, qparams.scale, qparams.zero_point,
                                                         axis, c10::ScalarType::QInt8);
    const at::Tensor got = kernels::quantized_weight(weighted);
    EXPECT_TRUE(at::equal(got.int_repr(), expected.int_repr())) << "round " << round;
    EXPECT_TRUE(at::equal(got.q_per_channel_scales(), expected.q_per_channel_scales()));
    EXPECT_TRUE(at::equal(got.q_per_channel_zero_points(), expected.q_per_channel_zero_points()));
  }
}

/// A module whose convolution or linear layer runs several times, on values of other ranges.
torch::jit::Module called_again(const char* layer) {
  constexpr int kCalls = 8;
  torch::manual_seed(1);
  torch::jit::Module model = testing::user_module("Again");
  model.register_module("conv", testing::conv2d(64, 64, 3));
  model.register_module("linear", testing::linear(256, 256));
  std::string forward = "def forward(self, x):\n";
  for (int i = 0; i < kCalls; ++i)
    forward += std::string("  x = torch.relu(self.") + layer + ".forward(x)) * 0.03 + x * 0.5\n";
  model.define(forward + "  return x\n");
  return model;
}

std::size_t bytes_in_a_file(const torch::jit::Module& model) {
  std::stringstream file;
  model.save(file);
  return file.str().size();
}

TEST(WeightPacking, AFileHoldsTheWeightOfSeveralCallsOnce) {
  constexpr std::size_t kRest = 32000;
  for (const char* layer : {"conv", "linear"}) {
    const auto input = std::string(layer) == "conv" ? torch::randn({1, 64, 8, 8}) : torch::randn({4, 256});
    const auto model = called_again(layer);
    const auto weight =
        static_cast<std::size_t>(model.attr(layer).toModule().attr("weight").toTensor().numel());
    for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
      const auto lowered = testing::best_model(model, input, engine);
      EXPECT_LT(bytes_in_a_file(lowered), weight + kRest) << engine << " " << layer;
      EXPECT_GT(testing::sqnr(testing::run(model, input), testing::run(lowered, input)), 20) << engine;
    }
  }
}

}  // namespace packed_test
}  // namespace tsq
