// What is a factor of a channel, and what an error.
#include "trial/channel_gains.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/compare_layers.h>
#include <tsq/tsq.h>

#include <algorithm>

#include "support/small_models.h"

namespace tsq {
namespace channel_gains_test {

using detail::column_gains;
using detail::ColumnGains;
using detail::ValueGains;

constexpr int64_t kChannels = 12;

at::Tensor doubles(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

/// Factors from a quarter to four.
at::Tensor factors() { return at::exp2(at::rand({kChannels}, at::kDouble) * 4 - 2); }

/// A little noise, as rounding makes it.
at::Tensor rounded(const at::Tensor& tensor) { return tensor + 0.003 * at::randn_like(tensor); }

TEST(ChannelGains, ColumnsOfAWeightAreFoundBesideFactorsOfItsRows) {
  torch::manual_seed(1);
  const at::Tensor exact = doubles({20, kChannels, 3, 3});
  const at::Tensor columns = factors();
  const at::Tensor rows = at::rand({20, 1, 1, 1}, at::kDouble) + 0.5;
  const ColumnGains found = column_gains(rounded(exact * rows * columns.view({1, -1, 1, 1})), exact);
  EXPECT_TRUE(found.is_convolution);
  const at::Tensor ratio = found.of_channel / columns;
  EXPECT_TRUE(at::allclose(ratio / ratio.mean(), at::ones_like(ratio), 0.01));
}

TEST(ChannelGains, FactorsThatTheNextWeightTakesBackAreNoError) {
  torch::manual_seed(2);
  const at::Tensor exact = doubles({20, kChannels});
  const at::Tensor scale = factors();
  const ColumnGains columns = column_gains(exact / scale, exact);
  ValueGains gains;
  const at::Tensor values = doubles({64, kChannels});
  gains.add(values, rounded(values * scale));
  EXPECT_TRUE(gains.are_taken_back_by(columns));
  EXPECT_GT(gains.sqnr_db(columns), 35);
  EXPECT_NEAR(detail::weight_sqnr(rounded(exact / scale), exact, columns), 50, 10);
}

TEST(ChannelGains, WhatNobodyTakesBackIsAnError) {
  torch::manual_seed(3);
  const at::Tensor exact = doubles({20, kChannels});
  const at::Tensor values = doubles({64, kChannels});
  ValueGains by_channel;
  by_channel.add(values, rounded(values * factors()));
  EXPECT_FALSE(by_channel.are_taken_back_by(column_gains(exact, exact))) << "the columns are those of float";
  ValueGains by_one;
  by_one.add(values, rounded(values * 1.5));
  EXPECT_FALSE(by_one.are_taken_back_by(column_gains(exact, exact))) << "a scale that is wrong";
  EXPECT_TRUE(by_one.are_taken_back_by(column_gains(exact / 1.5, exact)));
  ValueGains outlier;
  at::Tensor wrong = values.clone();
  wrong.select(1, 3).mul_(4);
  outlier.add(values, rounded(wrong));
  EXPECT_FALSE(outlier.are_taken_back_by(column_gains(exact / factors(), exact)));
}

/// A norm whose channels differ, a linear layer that smoothing scales, and another.
torch::jit::Module smoothed_model() {
  torch::manual_seed(4);
  torch::jit::Module model = testing::user_module("Smoothed");
  torch::jit::Module norm = testing::layer_norm(32);
  norm.attr("weight").toTensor().detach().copy_(at::exp2(at::rand({32}) * 6 - 3));
  model.register_module("norm", norm);
  model.register_module("first", testing::linear(32, 48));
  model.register_module("last", testing::linear(48, 16));
  model.define(
      "def forward(self, x):\n"
      "  return self.last.forward(torch.relu(self.first.forward(self.norm.forward(x))))\n");
  model.eval();
  return model;
}

TEST(CompareLayers, ASmoothedLayerIsComparedWithoutItsFactors) {
  const torch::jit::Module model = smoothed_model();
  const std::vector<Sample> samples{{torch::randn({16, 32})}, {torch::randn({16, 32})}};
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend_config("x86"));
  calibrate(prepared, samples);
  const std::vector<LayerComparison> rows =
      compare_layers(model, convert(prepared, backend_config("x86")), samples).rows;
  const auto norm = std::ranges::find(rows, "norm", &LayerComparison::layer);
  ASSERT_NE(norm, rows.end());
  EXPECT_TRUE(norm->is_scaled);
  for (const LayerComparison& row : rows) {
    EXPECT_GT(row.sqnr_db, 20) << row.layer;
    EXPECT_GT(row.alone_sqnr_db.value_or(100), 20) << row.layer;
    EXPECT_GT(row.weight_sqnr_db.value_or(100), 30) << row.layer;
  }
}

TEST(CompareLayers, AFaultInALayerThatReadsScaledValuesIsBornThere) {
  const torch::jit::Module model = smoothed_model();
  torch::jit::Module wrong = smoothed_model();
  const at::NoGradGuard no_grad;
  const std::vector<Sample> samples{{torch::randn({16, 32})}, {torch::randn({16, 32})}};
  const auto rows_for = [&](const torch::jit::Module& made_of) {
    Prepared prepared = prepare(made_of, best_qconfig_mapping("x86"), backend_config("x86"));
    calibrate(prepared, samples);
    return compare_layers(model, convert(prepared, backend_config("x86")), samples).rows;
  };
  const std::vector<LayerComparison> rows = rows_for(model);
  const auto reader = std::next(std::ranges::find(rows, "norm", &LayerComparison::layer));
  ASSERT_NE(reader, rows.end());
  EXPECT_GT(reader->alone_sqnr_db.value_or(0), 25) << reader->layer;
  wrong.attr(reader->layer).toModule().attr("weight").toTensor().mul_(1.3);
  const std::vector<LayerComparison> wrong_rows = rows_for(wrong);
  const auto found = std::ranges::find(wrong_rows, reader->layer, &LayerComparison::layer);
  EXPECT_NEAR(found->alone_sqnr_db.value_or(99), 20 * std::log10(1 / 0.3), 1.5);
}

}  // namespace channel_gains_test
}  // namespace tsq
