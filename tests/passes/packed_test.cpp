#include "modules/packed.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tsq {
namespace {

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
    const at::Tensor got = modules::quantized_weight(weighted);
    EXPECT_TRUE(at::equal(got.int_repr(), expected.int_repr())) << "round " << round;
    EXPECT_TRUE(at::equal(got.q_per_channel_scales(), expected.q_per_channel_scales()));
    EXPECT_TRUE(at::equal(got.q_per_channel_zero_points(), expected.q_per_channel_zero_points()));
  }
}

}  // namespace
}  // namespace tsq
