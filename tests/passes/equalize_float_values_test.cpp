// Channels of unlike size where a float value becomes quantized, or the other way round.

#include <gtest/gtest.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <cmath>

#include "passes/numerics/passes.h"
#include "passes/ranges/passes.h"
#include "support/before_pass.h"
#include "support/calibrated_model.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"
#include "torchscript/emit.h"

namespace tsq {
namespace equalize_float_values_test {

using torch::jit::Module;
using torch::jit::testing::FileCheck;

constexpr double kMargin = 1.25;
const std::string kInFront = "equalized by a multiplication before it";
const std::string kAfter = "equalized by a multiplication after it";

Prepared calibrated(const Module& model, const std::vector<Sample>& samples, double margin = kMargin,
                    const std::string& engine = "x86") {
  Prepared prepared = prepare(model, best_qconfig_mapping(engine), backend_config(engine),
                              {.machine = testing::slow_in_float(),
                               .cross_layer_margin = margin,
                               .weight_rounding = WeightRounding::Nearest});
  calibrate(prepared, samples);
  return prepared;
}

struct Equalized {
  ir::Model model{};
  bool has_changed{false};
};

/// The graph with its observers, after this pass alone.
Equalized equalized(const Prepared& prepared) {
  auto [model, context] = testing::calibrated_model(prepared);
  context.options.cross_layer_margin = kMargin;
  passes::take_channel_statistics(model, context);
  const bool has_changed = passes::equalize_float_values(model, context);
  return {.model = std::move(model), .has_changed = has_changed};
}

std::string reported(const Equalized& result, const std::string& path) {
  return testing::reported_equalization(result.model, path);
}

void expect_same_in_float(Module model, const Equalized& result, const Sample& sample) {
  Module module = torchscript::emit(result.model);
  EXPECT_TRUE(at::allclose(model.forward(sample).toTensor(), module.forward(sample).toTensor(), 1e-4, 1e-4));
}

double error(Module float_model, Module int8, const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& sample : samples)
    sum += (int8.forward(sample).toTensor() - float_model.forward(sample).toTensor()).norm().item<double>();
  return sum;
}

/// A layer after a float operator; the squares of its input's 16 channels reach from 0 to `widths`.
Module after_float(const at::Tensor& widths, int64_t outputs) {
  torch::manual_seed(14);
  Module model = testing::user_module("AfterFloat");
  model.register_module("layer", testing::linear(16, outputs));
  model.register_buffer("widths", widths);
  model.define("def forward(self, x):\n  return self.layer.forward(torch.sqrt(x * self.widths))\n");
  return model;
}

/// From `narrowest` to 1.
at::Tensor widths_from(double narrowest) { return torch::logspace(std::log10(narrowest), 0, 16); }

/// The larger the power, the smaller most values beside the largest.
std::vector<Sample> positive_rows(double power = 2) {
  torch::manual_seed(15);
  return {{torch::rand({64, 16}).pow(power)}};
}

TEST(EqualizeFloatValues, WhatAFloatOperatorGivesIsMultipliedWhereThatSavesMuch) {
  const Module model = after_float(widths_from(1e-6), 64);
  const Equalized result = equalized(calibrated(model, positive_rows()));
  EXPECT_TRUE(result.has_changed);
  EXPECT_EQ(reported(result, "layer"), kInFront);
  FileCheck()
      .check("aten::sqrt")
      ->check("aten::mul")
      ->check("prim::tsq_observer")
      ->run(result.model.graph->toString());
  expect_same_in_float(model, result, positive_rows().front());
}

TEST(EqualizeFloatValues, AMultiplicationThatSavesLittleIsLeftOut) {
  const Equalized result = equalized(calibrated(after_float(widths_from(0.5), 64), positive_rows()));
  EXPECT_FALSE(result.has_changed);
  EXPECT_NE(reported(result, "layer"), kInFront);
  FileCheck()
      .check("aten::sqrt")
      ->check_not("aten::mul")
      ->check("prim::tsq_observer")
      ->run(result.model.graph->toString());
}

TEST(EqualizeFloatValues, BesideALayerThatTakesNoLongerTheMultiplicationHasToSaveMore) {
  const auto reported_of = [](const at::Tensor& widths, int64_t outputs) {
    return reported(equalized(calibrated(after_float(widths, outputs), positive_rows(40))), "layer");
  };
  EXPECT_EQ(reported_of(widths_from(1e-2), 64), kInFront);
  EXPECT_NE(reported_of(widths_from(1e-2), 8), kInFront);
  at::Tensor all_but_one_narrow = torch::full({16}, 1e-3);
  all_but_one_narrow[15] = 1;
  EXPECT_EQ(reported_of(all_but_one_narrow, 8), kInFront);
}

/// A convolution of 3 to 8 channels, the first of which is `widest` times as large as the others.
Module in_front_of_float(double widest, const std::string& result, int64_t stride = 2) {
  torch::manual_seed(16);
  const c10::NoGradGuard no_grad;
  Module model = testing::user_module("InFrontOfFloat");
  Module layer = testing::conv2d(3, 32, 3);
  layer.attr("weight").toTensor()[0].mul_(widest);
  layer.setattr("stride", std::vector<int64_t>{stride, stride});
  model.register_module("layer", layer);
  model.define("def forward(self, x):\n  return " + result + "\n");
  return model;
}
const std::string kNormalised = "torch.group_norm(self.layer.forward(x), 8)";

std::vector<Sample> images(int64_t size = 9) {
  torch::manual_seed(17);
  return {{torch::randn({2, 3, size, size})}, {torch::randn({2, 3, size, size})}};
}

TEST(EqualizeFloatValues, WhatFloatOperatorsReadIsDividedAgainAfterTheRounding) {
  const Module model = in_front_of_float(50, kNormalised);
  const Prepared prepared = calibrated(model, images(), kMargin, "fbgemm");
  const Equalized result = equalized(prepared);
  EXPECT_EQ(reported(result, "layer"), kAfter);
  FileCheck()
      .check("prim::tsq_observer")
      ->check("aten::mul")
      ->check("aten::group_norm")
      ->run(result.model.graph->toString());
  expect_same_in_float(model, result, images().front());
  const BackendConfig backend = backend_config("fbgemm");
  const double without = error(model, convert(calibrated(model, images(), 1e9, "fbgemm"), backend), images());
  EXPECT_LT(error(model, convert(prepared, backend), images()), 0.5 * without);
}

TEST(EqualizeFloatValues, WhatAKernelGivesInFloatIsNotDivided) {
  auto [model, context] =
      testing::calibrated_model(calibrated(in_front_of_float(50, kNormalised, 1), images()));
  context.options.cross_layer_margin = kMargin;
  passes::take_channel_statistics(model, context);
  ir::record_for(model, testing::call_node(model, "layer")).placement = Placement::Int8FloatOut;
  EXPECT_FALSE(passes::equalize_float_values(model, context));
}

TEST(EqualizeFloatValues, ChannelsOfLikeSizeAreNotDivided) {
  EXPECT_EQ(reported(equalized(calibrated(in_front_of_float(1, kNormalised), images())), "layer"), "");
}

TEST(EqualizeFloatValues, ALayerThatIsCalledTwiceKeepsItsWeights) {
  const Module model =
      in_front_of_float(50, kNormalised + " + torch.group_norm(self.layer.forward(x * 2), 8)");
  EXPECT_EQ(reported(equalized(calibrated(model, images())), "layer"), "");
}

TEST(EqualizeFloatValues, WhatLeavesTheModelIsNotDivided) {
  const Module model = in_front_of_float(50, "self.layer.forward(x)");
  EXPECT_EQ(reported(equalized(calibrated(model, images())), "layer"), "");
  Module list = testing::user_module("List");
  list.register_module("layer", model.attr("layer").toModule());
  list.define(
      "def forward(self, x):\n  ys = [x]\n  for i in range(2):\n    ys.append(self.layer.forward(x))\n"
      "  return ys\n");
  EXPECT_EQ(reported(equalized(calibrated(list, images())), "layer"), "");
}

TEST(EqualizeFloatValues, WhatAKernelReadsTooIsNotDivided) {
  Module model = in_front_of_float(50, "self.layer.forward(x)");
  model.register_module("next", testing::conv2d(32, 4, 1));
  Module both = testing::user_module("Both");
  both.register_module("a", model.attr("layer").toModule());
  both.register_module("b", model.attr("next").toModule());
  both.define(
      "def forward(self, x):\n  y = self.a.forward(x)\n  return self.b.forward(y).mean() + "
      "torch.group_norm(y, 8)\n");
  EXPECT_EQ(reported(equalized(calibrated(both, images())), "a"), "");
}

}  // namespace equalize_float_values_test
}  // namespace tsq
