// Training by recipe best: what is rounded, on which grid the model converts, and what is left float.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>

#include "support/processor.h"
#include "support/small_models.h"

namespace tsq {
namespace train_best_test {

using torch::jit::Module;

at::Tensor images() {
  torch::manual_seed(5);
  return torch::randn({4, 3, 8, 8});
}

Module with_gradients(Module module) {
  for (const at::Tensor& parameter : module.parameters()) parameter.set_requires_grad(true);
  return module;
}

Module conv_bn_relu() {
  Module module = testing::user_module("Block");
  module.register_module("conv", testing::conv2d(4, 4, 3));
  module.register_module("bn", testing::batch_norm2d(4));
  module.register_module("relu", testing::relu());
  module.define("def forward(self, x):\n  return self.relu.forward(self.bn.forward(self.conv.forward(x)))\n");
  return module;
}

/// conv (3 → 4) → `layer` (4 → 4) → conv (4 → 2)
Module around(const Module& layer) {
  torch::manual_seed(3);
  Module module = testing::user_module("Around");
  module.register_module("before", testing::conv2d(3, 4, 1));
  module.register_module("layer", layer);
  module.register_module("after", testing::conv2d(4, 2, 1));
  module.define(
      "def forward(self, x):\n  return self.after.forward(self.layer.forward(self.before.forward(x)))\n");
  return with_gradients(module);
}

/// For processors with VNNI: for others, weights move to codes whose sums do not overflow.
Prepared prepared(const Module& module, const std::string& engine = "x86",
                  const QConfigMapping& mapping = best_qat_qconfig_mapping("x86"),
                  const PrepareOptions& options = {.target_cpu = TargetCpu::Vnni}) {
  return prepare_qat(module, mapping, with_weight_only(backend_config(engine)), options);
}

void train(Module module, double rate = 0.05) {
  module.train();
  for (int step = 0; step < 3; ++step) {
    for (const at::Tensor& parameter : module.parameters()) parameter.mutable_grad() = at::Tensor();
    module.forward({images()}).toTensor().square().mean().backward();
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : parameters_to_train(module)) parameter.sub_(rate * parameter.grad());
  }
}

at::Tensor run(Module module) {
  const at::NoGradGuard no_grad;
  module.eval();
  return module.forward({images()}).toTensor();
}

/// The trained model as it rounds, with all its ranges as they are.
at::Tensor run_trained(Module module) {
  disable_observer(module);
  return run(module);
}

Module child(const Module& module, const std::string& name) { return module.attr(name).toModule(); }
bool rounds_weight(const Module& module) { return module.hasattr("weight_fake_quant"); }

const Decision& decision_of(const Report& report, const std::string& layer) {
  return *std::ranges::find(report.decisions, layer, &Decision::layer);
}

/// No value of the reference is another one: rounding is that of training, folding a batch norm differs in
/// the last bits, by which a value may fall to the neighbouring code.
void expect_the_trained_grid(const Prepared& stage) {
  const at::Tensor trained = run_trained(stage.module());
  const at::Tensor converted = run(convert_to_reference(stage, stage.backend()).module());
  const double step = (trained.max() - trained.min()).item<double>() / 255;
  EXPECT_LE((trained - converted).abs().max().item<double>(), 1.01 * step);
  const double differing =
      at::gt((trained - converted).abs(), step / 2).to(at::kDouble).mean().item<double>();
  EXPECT_LE(differing, 0.05);
}

// QT-100, QT-102, QT-103.
TEST(TrainBest, ConvertsOnTheGridThatWasTrained) {
  const Prepared stage = prepared(around(testing::conv2d(4, 4, 3)));
  train(stage.module());
  const at::Tensor trained = run_trained(stage.module());
  EXPECT_TRUE(at::equal(trained, run(convert_to_reference(stage, stage.backend()).module())));
}

// QT-101: the fused operator would round to an asymmetric grid here.
TEST(TrainBest, WeightsOfOneSignTrainOnASymmetricGrid) {
  Module module = around(testing::conv2d(4, 4, 3));
  {
    const at::NoGradGuard no_grad;
    child(module, "layer").attr("weight").toTensor().abs_().add_(0.5);
  }
  for (const QConfigMapping& mapping :
       {best_qat_qconfig_mapping("x86"), default_qat_qconfig_mapping("x86")}) {
    const Prepared stage = prepared(module, "x86", mapping);
    train(stage.module());
    const Module rounding = child(child(stage.module(), "layer"), "weight_fake_quant");
    EXPECT_EQ(rounding.attr("zero_point").toTensor().abs().max().item<int64_t>(), 0);
  }
  const Prepared stage = prepared(module);
  train(stage.module());
  EXPECT_TRUE(
      at::equal(run_trained(stage.module()), run(convert_to_reference(stage, stage.backend()).module())));
}

// QT-57, QT-102: the fused operator's buffers stay behind its range while rounding is off.
TEST(TrainBest, RangesThatMovedWhileRoundingWasOffAreTheRangesOfTheResult) {
  const Prepared stage = prepared(around(testing::conv2d(4, 4, 3)));
  disable_fake_quant(stage.module());
  train(stage.module());
  const at::Tensor converted = run(convert_to_reference(stage, stage.backend()).module());
  enable_fake_quant(stage.module());
  EXPECT_TRUE(at::equal(run_trained(stage.module()), converted));
}

TEST(TrainBest, ABatchNormInALayerKeepsTheGrid) {
  const Prepared stage = prepared(around(conv_bn_relu()));
  train(stage.module());
  expect_the_trained_grid(stage);
}

TEST(TrainBest, ATransposedConvolutionIsRoundedInTraining) {
  const Prepared stage = prepared(around(testing::conv_transpose2d(4, 4, 3)));
  EXPECT_TRUE(rounds_weight(child(stage.module(), "layer")));
  train(stage.module());
  EXPECT_TRUE(
      at::equal(run_trained(stage.module()), run(convert_to_reference(stage, stage.backend()).module())));
}

// QT-08, QT-104: FX stops here.
TEST(TrainBest, ABatchNormTrainsInsideOfATransposedConvolution) {
  Module inner = testing::user_module("Up");
  inner.register_module("conv", testing::conv_transpose2d(4, 4, 3));
  inner.register_module("bn", testing::batch_norm2d(4));
  inner.define("def forward(self, x):\n  return self.bn.forward(self.conv.forward(x))\n");
  for (const bool has_relu : {false, true}) {
    Module layer = inner;
    if (has_relu) {
      layer = testing::user_module("UpReLU");
      layer.register_module("up", inner);
      layer.define("def forward(self, x):\n  return torch.relu(self.up.forward(x))\n");
    }
    const Prepared stage = prepared(around(layer));
    Module made = child(stage.module(), "layer");
    if (has_relu) made = child(made, "up");
    EXPECT_TRUE(child(made, "bn").hasattr("freeze_bn")) << has_relu;
    train(stage.module());
    expect_the_trained_grid(stage);
  }
}

TEST(TrainBest, SlopesOfAPReLUAreRoundedInTraining) {
  const Prepared stage = prepared(around(testing::prelu(4)));
  EXPECT_TRUE(rounds_weight(child(stage.module(), "layer")));
  train(stage.module());
  const at::Tensor trained = run_trained(stage.module());
  const at::Tensor lowered = run(convert(stage, stage.backend()).module());
  if (!testing::has_vnni()) return;  // sums overflow there with weights for VNNI
  EXPECT_LT((trained - lowered).norm().item<double>(), 0.02 * trained.norm().item<double>());
}

// QT-20: FX stops here. The sum is part of the layer in training and afterwards.
TEST(TrainBest, OnednnsSumTrainsInsideOfItsLayer) {
  torch::manual_seed(3);
  Module module = testing::user_module("Residual");
  module.register_module("before", testing::conv2d(3, 4, 1));
  module.register_module("conv", testing::conv2d(4, 4, 1));
  module.register_module("bn", testing::batch_norm2d(4));
  module.register_module("relu", testing::relu());
  module.define(
      "def forward(self, x):\n  y = self.before.forward(x)\n"
      "  return self.relu.forward(torch.add(self.bn.forward(self.conv.forward(y)), y))\n");
  const Prepared stage = prepared(with_gradients(module), "onednn", best_qat_qconfig_mapping("onednn"));
  EXPECT_TRUE(rounds_weight(child(stage.module(), "conv")));
  EXPECT_TRUE(child(stage.module(), "bn").hasattr("freeze_bn"));
  train(stage.module());
  expect_the_trained_grid(stage);
  const Report report = convert_to_reference(stage, stage.backend()).report();
  EXPECT_EQ(decision_of(report, "conv").op, "torch.ao.nn.intrinsic.ConvAddReLU2d");
}

// QT-116: FX fuses nothing there (QT-19).
TEST(TrainBest, LayersOfAStandaloneModuleAreFused) {
  const Module module = around(conv_bn_relu());
  PrepareOptions options;
  options.custom.set_standalone_module_name("layer", {});
  const auto has_fused = [&](Recipe recipe) {
    options.recipe = recipe;
    const Prepared stage = prepared(module, "x86", best_qat_qconfig_mapping("x86"), options);
    return child(child(stage.module(), "layer"), "bn").hasattr("freeze_bn");
  };
  EXPECT_TRUE(has_fused(Recipe::Best));
  EXPECT_FALSE(has_fused(Recipe::Fx));
}

TEST(TrainBest, ALayerThatCalibrationLeavesFloatTrainsInFloat) {
  Module module = testing::user_module("Classifier");
  torch::manual_seed(3);
  module.register_module("conv", testing::conv2d(3, 64, 3));
  module.register_module("classify", testing::linear(64, 2));
  module.define("def forward(self, x):\n  return self.classify.forward(self.conv.forward(x).mean([2, 3]))\n");
  const BackendConfig backend = with_weight_only(backend_config("x86"));
  const std::vector<Sample> samples{{torch::randn({4, 3, 32, 32})}};
  const QConfigMapping mapping =
      without_float_layers(best_qat_qconfig_mapping("x86"), with_gradients(module), backend, samples);
  const Prepared calibrated = [&] {
    Prepared result = prepare(module, best_qconfig_mapping("x86"), backend);
    calibrate(result, samples);
    return result;
  }();
  const Report report = convert_to_reference(calibrated, backend).report();
  const Prepared stage = prepare_qat(module, mapping, backend);
  for (const std::string layer : {"conv", "classify"})
    EXPECT_EQ(rounds_weight(child(stage.module(), layer)), decision_of(report, layer).quantized) << layer;
  EXPECT_FALSE(rounds_weight(child(stage.module(), "classify")));
}

TEST(TrainBest, AMappingForCalibrationIsRefused) {
  EXPECT_THROW(prepared(around(testing::relu()), "x86", best_qconfig_mapping("x86")), Error);
}

TEST(TrainBest, LearnedScalesAreThoseOfTheResult) {
  const ObserverSpec activation = {.observer = "MovingAverageMinMaxObserver",
                                   .fake_quantize = "_LearnableFakeQuantize",
                                   .quant_min = 0,
                                   .quant_max = 127,
                                   .use_grad_scaling = true};
  ObserverSpec weight = activation;
  weight.dtype = c10::kQInt8;
  weight.qscheme = c10::kPerTensorSymmetric;
  weight.quant_min = -128;
  const auto mapping = QConfigMapping().set_global(QConfig{activation, weight});
  const Prepared stage = prepared(around(testing::conv2d(4, 4, 3)), "x86", mapping);
  const Prepared copy = stage;
  EXPECT_EQ(parameters_to_train(copy.module()).size(), parameters_to_train(stage.module()).size());
  train(stage.module());
  for (const Module& each : stage.module().modules()) {
    if (each.find_method("enable_param_learning")) each.get_method("enable_param_learning")({});
  }
  const Module rounding = child(child(stage.module(), "layer"), "weight_fake_quant");
  const at::Tensor observed = rounding.attr("scale").toTensor().detach().clone();
  train(stage.module());
  EXPECT_FALSE(at::equal(rounding.attr("scale").toTensor(), observed));
  EXPECT_TRUE(at::equal(run(stage.module()), run(convert_to_reference(stage, stage.backend()).module())));
}

}  // namespace train_best_test
}  // namespace tsq
