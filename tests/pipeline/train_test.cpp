// Training: what prepare_qat makes, what the switches do, and that files lose nothing.

#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

#include "support/small_models.h"

namespace tsq {
namespace train_test {

using torch::jit::Module;

/// before → inner (conv → bn → relu) → after
Module model() {
  torch::manual_seed(3);
  Module module = testing::user_module("Outer");
  module.register_module("before", testing::conv2d(3, 3, 1));
  module.register_module("inner", testing::conv_bn_relu());
  module.register_module("after", testing::conv2d(4, 2, 1));
  module.define(
      "def forward(self, x):\n  return self.after.forward(self.inner.forward(self.before.forward(x)))\n");
  for (const at::Tensor& parameter : module.parameters()) parameter.set_requires_grad(true);
  return module;
}

Prepared prepared(const Module& module) {
  return prepare_qat(module, default_qat_qconfig_mapping("x86"), backend_config("x86"),
                     {.recipe = Recipe::Fx});
}

at::Tensor input() {
  torch::manual_seed(5);
  return torch::randn({4, 3, 8, 8});
}

void train(Module module, int steps = 2) {
  for (int step = 0; step < steps; ++step) {
    for (const at::Tensor& parameter : module.parameters()) parameter.mutable_grad() = at::Tensor();
    module.forward({input()}).toTensor().square().mean().backward();
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : module.parameters()) parameter.sub_(0.1 * parameter.grad());
  }
}

std::map<std::string, at::Tensor> values_of(const Module& module) {
  std::map<std::string, at::Tensor> values;
  for (const auto& each : module.named_parameters()) values[each.name] = each.value.detach().clone();
  for (const auto& each : module.named_buffers()) values[each.name] = each.value.detach().clone();
  return values;
}

at::Tensor run(Module module) {
  const at::NoGradGuard no_grad;
  module.eval();
  return module.forward({input()}).toTensor();
}

std::string path_of(const std::string& name) {
  return (std::filesystem::path(::testing::TempDir()) / name).string();
}

TEST(PrepareQat, KeepsTheNamesAndValuesOfParameters) {
  const Module user = model();
  const auto made = values_of(prepared(user).module());
  for (const auto& [name, value] : values_of(user)) {
    ASSERT_TRUE(made.contains(name)) << name;
    EXPECT_TRUE(at::equal(made.at(name), value)) << name;
  }
}

TEST(PrepareQat, GradientsReachEveryParameterAndTheUsersModelStaysAsItWas) {
  const Module user = model();
  const auto before = values_of(user);
  const Prepared stage = prepared(user);
  train(stage.module(), 1);
  for (const auto& each : stage.module().named_parameters())
    EXPECT_GT(each.value.grad().abs().max().item<float>(), 0) << each.name;
  for (const auto& [name, value] : values_of(user)) EXPECT_TRUE(at::equal(before.at(name), value)) << name;
}

TEST(PrepareQat, FrozenBatchNormsKeepTheirStatisticsInTrainingModeToo) {
  const Prepared stage = prepared(model());
  Module module = stage.module();
  const at::Tensor running =
      module.attr("inner").toModule().attr("bn").toModule().attr("running_var").toTensor();
  at::Tensor before = running.clone();
  freeze_bn_stats(module);
  module.train();
  module.forward({input()});
  EXPECT_TRUE(at::equal(running, before));
  update_bn_stats(module);
  module.forward({input()});
  EXPECT_FALSE(at::equal(running, before));
}

TEST(PrepareQat, SwitchesReachObserversAndFakeQuantizeModules) {
  const Prepared stage = prepared(model());
  const Module module = stage.module();
  train(module, 1);
  auto before = values_of(module);
  disable_observer(module);
  disable_fake_quant(module);
  train(module, 1);
  for (const auto& [name, value] : values_of(module)) {
    if (name.ends_with("min_val")) {
      EXPECT_TRUE(at::equal(before.at(name), value)) << name;
    }
    if (name.ends_with("_enabled")) {
      EXPECT_EQ(value.item<int64_t>(), 0) << name;
    }
  }
  module.get_method("enable_observer")({});
  for (const auto& [name, value] : values_of(module)) {
    if (name.ends_with("observer_enabled")) {
      EXPECT_EQ(value.item<int64_t>(), 1) << name;
    }
  }
}

TEST(PrepareQat, AFileWithoutExtraFilesConvertsAsTheStageItself) {
  const Prepared stage = prepared(model());
  train(stage.module());
  const BackendConfig backend = backend_config("x86");
  const Reference reference = convert_to_reference(stage, backend);
  const std::string file = path_of("trained.pt");
  stage.module().save(file);
  const Reference from_file = convert_to_reference(Prepared::load(file), backend);
  EXPECT_TRUE(at::equal(run(reference.module()), run(from_file.module())));
  EXPECT_TRUE(at::equal(run(lower(reference, backend)), run(lower(from_file, backend))));

  const std::string saved = path_of("trained_reference.pt");
  from_file.save(saved);
  EXPECT_TRUE(at::equal(run(Reference::load(saved).module()), run(reference.module())));
}

TEST(PrepareQat, ConvertLeavesTheTrainedModelAsItIs) {
  const Prepared stage = prepared(model());
  train(stage.module());
  const auto before = values_of(stage.module());
  convert_to_reference(stage, backend_config("x86"));
  for (const auto& [name, value] : values_of(stage.module()))
    EXPECT_TRUE(at::equal(before.at(name), value)) << name;
  EXPECT_TRUE(stage.module().is_training());
}

TEST(PrepareQat, AConditionOnTrainingFollowsTheMode) {
  Module module = testing::user_module("Conditional");
  module.register_module("conv", testing::conv2d(3, 3, 1));
  module.define(
      "def forward(self, x):\n"
      "  y = self.conv.forward(x)\n"
      "  if self.training:\n    y = torch.cat([y, y], 1)\n"
      "  return y\n");
  for (const at::Tensor& parameter : module.parameters()) parameter.set_requires_grad(true);
  const Prepared stage = prepared(module);
  Module made = stage.module();
  EXPECT_EQ(made.forward({input()}).toTensor().size(1), 6);
  made.eval();
  EXPECT_EQ(made.forward({input()}).toTensor().size(1), 3);
  EXPECT_EQ(run(convert_to_reference(stage, backend_config("x86")).module()).size(1), 3);
}

TEST(PrepareQat, AFrozenFileTrainsOnItsConstants) {
  Module user = model();
  user.eval();
  const Prepared stage = prepared(torch::jit::freeze(user));
  const at::Tensor observed = run(stage.module());
  const at::Tensor converted = run(convert_to_reference(stage, backend_config("x86")).module());
  EXPECT_LT((observed - converted).norm().item<float>(), 0.1F * observed.norm().item<float>());
  const at::Tensor weight = stage.module().attr("conv2d_0_weight").toTensor();
  const at::Tensor before = weight.detach().clone();
  train(stage.module(), 1);
  EXPECT_FALSE(at::equal(weight, before));
}

TEST(PrepareQat, TheReportCountsTrainedLayersAsQuantized) {
  const Prepared stage = prepared(model());
  train(stage.module());
  for (const Report& report : {stage.report(), convert_to_reference(stage, backend_config("x86")).report()}) {
    const Totals sums = totals(report);
    EXPECT_EQ(sums.operators, 3U);
    EXPECT_EQ(sums.quantized, 3U);
  }
  const Report lowered = convert(stage, backend_config("x86")).report();
  EXPECT_EQ(totals(lowered).in_kernels, 3U);
  EXPECT_EQ(lowered.decisions.at(1).op, "torch.ao.nn.intrinsic.ConvReLU2d");
}

// QT-08.
TEST(PrepareQat, ABatchNormThatStaysApartHasItsReason) {
  Module module = testing::user_module("Up");
  module.register_module("conv", testing::conv_transpose2d(3, 4, 3));
  module.register_module("bn", testing::batch_norm2d(4));
  module.define("def forward(self, x):\n  return self.bn.forward(self.conv.forward(x))\n");
  const auto has_reason = [](const Decision& decision) {
    return std::ranges::any_of(decision.notes, [](const std::string& note) {
      return note.find("PyTorch has no form of them that trains") != std::string::npos;
    });
  };
  EXPECT_EQ(std::ranges::count_if(prepared(module).report().decisions, has_reason), 1);
  EXPECT_EQ(std::ranges::count_if(prepared(model()).report().decisions, has_reason), 0);
}

// QT-59: a NaN in one batch stays in the range.
TEST(PrepareQat, ConvertRefusesRangesAndWeightsThatAreNotFinite) {
  const auto expect_refusal = [](const Prepared& stage, const std::string& what) {
    try {
      convert_to_reference(stage, backend_config("x86"));
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::BadModel);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  const Prepared of_batch = prepared(model());
  Module module = of_batch.module();
  at::Tensor batch = input();
  module.forward({batch.clone()});
  batch[0][0][0][0] = std::numeric_limits<float>::quiet_NaN();
  module.eval();
  module.forward({batch});
  expect_refusal(of_batch, "the range of 'x");

  const Prepared of_weight = prepared(model());
  run(of_weight.module());
  const at::NoGradGuard no_grad;
  of_weight.module().attr("after").toModule().attr("weight").toTensor()[0] =
      std::numeric_limits<float>::infinity();
  expect_refusal(of_weight, "'after'");

  const Prepared in_half = prepared(model());
  run(in_half.module());
  Module(in_half.module()).to(at::kHalf);
  expect_refusal(in_half, "float16");
}

TEST(PrepareQat, CalibrationFindsRangesAndLeavesStatisticsAndModesAsTheyAre) {
  Prepared stage = prepared(model());
  const std::map<std::string, at::Tensor> before = values_of(stage.module());
  const std::vector<Sample> samples{{input()}};
  calibrate(stage, samples);
  const std::map<std::string, at::Tensor> after = values_of(stage.module());
  for (const auto& [name, value] : before) {
    const bool is_range = name.ends_with("min_val") || name.ends_with("max_val");
    const bool is_of_fake_quantize =
        name.find("fake_quant") != std::string::npos || name.find("post_process") != std::string::npos;
    if (!is_range && is_of_fake_quantize) continue;
    EXPECT_EQ(at::equal(value, after.at(name)), !is_range) << name;
  }
  EXPECT_TRUE(stage.module().is_training());
  EXPECT_NO_THROW(convert_to_reference(stage, backend_config("x86")));
}

/// What the executor makes of forward when it has seen three steps.
std::string executed_graph(Module module) {
  train(module, 3);
  module.forward({input()});
  return torch::jit::lastExecutedOptimizedGraph()->toString();
}

// QT-92: where the executor derives neighbours together, parameters differ from FX's in the last bit.
TEST(PrepareQat, AutogradDerivesEachOperatorByItself) {
  const std::string joined = "prim::DifferentiableGraph";
  Module as_it_is = model();
  as_it_is.train();
  EXPECT_NE(executed_graph(as_it_is).find(joined), std::string::npos);
  EXPECT_EQ(executed_graph(prepared(model()).module()).find(joined), std::string::npos);
  const Prepared best = prepare_qat(model(), best_qat_qconfig_mapping("x86"), backend_config("x86"));
  EXPECT_EQ(executed_graph(best.module()).find(joined), std::string::npos);
}

TEST(PrepareQat, RefusesAModelInDouble) {
  Module module = model();
  module.to(at::kDouble);
  try {
    prepared(module);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadModel);
    EXPECT_NE(std::string(error.what()).find("float64"), std::string::npos) << error.what();
  }
}

// A trace holds the share that attention drops as a constant.
TEST(PrepareQat, AttentionDropsWeightsInTrainingAlone) {
  Module module = testing::user_module("Attention");
  module.register_module("project", testing::linear(8, 8));
  module.define(
      "def forward(self, x):\n  y = self.project.forward(x)\n"
      "  return torch.scaled_dot_product_attention(y, y, y, None, 0.5, False)\n");
  for (const at::Tensor& parameter : module.parameters()) parameter.set_requires_grad(true);
  const Prepared stage = prepared(module);
  const at::Tensor values = torch::randn({2, 5, 8});
  const auto is_repeatable = [&](Module made) {
    const at::NoGradGuard no_grad;
    return at::equal(made.forward({values}).toTensor(), made.forward({values}).toTensor());
  };
  Module made = stage.module();
  EXPECT_FALSE(is_repeatable(made));
  made.eval();
  EXPECT_TRUE(is_repeatable(made));
  EXPECT_TRUE(is_repeatable(convert(stage, backend_config("x86")).module()));
}

TEST(PrepareQat, RefusesAModelWithoutParameters) {
  Module module = testing::user_module("Empty");
  module.define("def forward(self, x):\n  return torch.relu(x)\n");
  try {
    prepared(module);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadModel);
  }
}

}  // namespace train_test
}  // namespace tsq
