// Samples without the dimension of a batch.

#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <array>

#include "support/best_model.h"
#include "support/machine_profiles.h"
#include "support/processor.h"
#include "support/small_models.h"

namespace tsq {
namespace batch_inputs_test {

using testing::count;
using torch::jit::Module;

/// `body` computes y from self.first (3 → 8), self.second (8 → 8), self.layer (8 → 4), self.pool and x.
Module network(const std::string& body) {
  torch::manual_seed(1);
  Module model = testing::user_module("Unbatched");
  model.register_module("first", testing::conv2d(3, 8, 3));
  model.register_module("second", testing::conv2d(8, 8, 3));
  model.register_module("layer", testing::linear(8, 4));
  model.register_module("pool", testing::max_pool2d());
  model.register_module("relu", testing::relu());
  model.define("def forward(self, x):\n" + body + "  return y\n");
  model.eval();
  return model;
}

const std::string kTwoLayers = "  y = self.second.forward(self.relu.forward(self.first.forward(x)))\n";

at::Tensor image(bool in_batch, int64_t size = 12) {
  torch::manual_seed(2);
  return in_batch ? torch::randn({2, 3, size, size}) : torch::randn({3, size, size});
}

Module quantized(const Module& model, const std::vector<Sample>& samples, const char* engine, Recipe recipe) {
  const BackendConfig backend = backend_config(engine);
  const QConfigMapping mapping =
      recipe == Recipe::Best ? best_qconfig_mapping(engine) : testing::default_mapping_here(engine);
  Prepared prepared =
      prepare(model, mapping, backend, {.recipe = recipe, .machine = testing::slow_in_float()});
  calibrate(prepared, samples);
  return convert(prepared, backend);
}

double error_of(const Module& model, const Module& lowered, const at::Tensor& input) {
  const at::NoGradGuard no_grad;
  return testing::sqnr(testing::run(model, input), testing::run(lowered, input));
}

constexpr std::array kEngines{"x86", "fbgemm", "onednn", "qnnpack"};

TEST(BatchInputs, ConvolutionsTakeSamplesOnEveryEngine) {
  const Module model = network(kTwoLayers);
  for (const char* engine : kEngines) {
    for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
      const Module lowered = quantized(model, {{image(false)}}, engine, recipe);
      EXPECT_EQ(count(lowered, "aten::conv2d"), 0U) << engine;
      EXPECT_GT(error_of(model, lowered, image(false)), 25) << engine;
      EXPECT_GT(error_of(model, lowered, image(false, 16)), 25) << engine;
    }
  }
}

TEST(BatchInputs, ABranchOnTheRankGoesTheRightWayForASample) {
  const Module model = network(kTwoLayers + "  if y.dim() == 3:\n    y = y + 10\n");
  const at::NoGradGuard no_grad;
  const at::Tensor wanted = [&] {
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);  // it misleads the float model, too
    return testing::run(model, image(false));
  }();
  for (const char* engine : kEngines) {
    const BackendConfig backend = backend_config(engine);
    const QConfigMapping mapping = best_qconfig_mapping(engine).set_module_name("second", std::nullopt);
    Prepared prepared = prepare(model, mapping, backend);
    calibrate(prepared, std::vector<Sample>{{image(false)}});
    const Module lowered = convert(prepared, backend);
    for (int i = 0; i < 3; ++i)  // LibTorch changes the graph before the first call and after it
      EXPECT_GT(testing::sqnr(wanted, testing::run(lowered, image(false))), 25) << engine;
  }
}

TEST(BatchInputs, BetweenTwoLayersTheBatchStays) {
  const Module lowered = quantized(network(kTwoLayers), {{image(false)}}, "fbgemm", Recipe::Best);
  EXPECT_EQ(count(lowered, "aten::unsqueeze"), 1U);
  EXPECT_EQ(count(lowered, "aten::squeeze"), 1U);
}

TEST(BatchInputs, AModelThatSeesBatchesIsNotTouched) {
  const Module lowered = quantized(network(kTwoLayers), {{image(true)}}, "fbgemm", Recipe::Fx);
  EXPECT_EQ(count(lowered, "aten::unsqueeze") + count(lowered, "aten::reshape"), 0U);
}

TEST(BatchInputs, WhatSawBothTakesBoth) {
  const Module model = network(kTwoLayers);
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    const Module lowered = quantized(model, {{image(false)}, {image(true)}}, "x86", recipe);
    EXPECT_GT(error_of(model, lowered, image(false)), 25);
    EXPECT_GT(error_of(model, lowered, image(true)), 25);
  }
}

TEST(BatchInputs, PoolsSumsAndLinearLayersTakeSamples) {
  const Module model = network(
      "  a = torch.relu(self.first.forward(x))\n"
      "  b = self.pool.forward(a + torch.relu(self.second.forward(a)))\n"
      "  y = self.layer.forward(self.second.forward(b).mean([1, 2]))\n");
  for (const char* engine : kEngines) {
    for (const Recipe recipe : {Recipe::Fx, Recipe::Best})
      EXPECT_GT(error_of(model, quantized(model, {{image(false)}}, engine, recipe), image(false)), 20)
          << engine;
  }
}

TEST(BatchInputs, ABatchThatTheModelAddsIsTheBatch) {
  const Module model = network("  y = self.second.forward(self.first.forward(x.unsqueeze(0))).squeeze(0)\n");
  const Module lowered = quantized(model, {{image(false)}}, "fbgemm", Recipe::Fx);
  EXPECT_EQ(count(lowered, "aten::unsqueeze"), 1U);
  EXPECT_EQ(count(lowered, "aten::reshape"), 0U);
  EXPECT_GT(error_of(model, lowered, image(false)), 25);
}

TEST(BatchInputs, ALayerThatQuantizesItsInputWhenItRunsTakesSamples) {
  const Module model = network("  y = self.layer.forward(x)\n");
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, dynamic_qconfig_mapping(), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{torch::randn({8})}});
  const Module lowered = convert(prepared, backend);
  EXPECT_EQ(count(lowered, "quantized::linear_dynamic"), 1U);
  EXPECT_GT(error_of(model, lowered, torch::randn({8})), 25);
}

TEST(BatchInputs, KernelsThatQuantizeTheirInputTakeSamplesToo) {
  torch::manual_seed(1);
  Module model = testing::user_module("Vectors");
  model.register_module("first", testing::linear(8, 16));
  model.register_module("last", testing::linear(16, 4));
  model.define("def forward(self, x):\n  return self.last.forward(torch.relu(self.first.forward(x)))\n");
  model.eval();
  for (const char* engine : kEngines) {
    for (const QConfigMapping& mapping :
         {best_dynamic_qconfig_mapping(), QConfigMapping().set_global(qconfig("float16_dynamic_qconfig"))}) {
      const BackendConfig backend = backend_config(engine);
      const Prepared prepared = prepare(model, mapping, backend, {.machine = testing::slow_in_float()});
      const Module lowered = convert(prepared, backend);
      const bool has_float16 = std::string_view(engine) == "x86" || std::string_view(engine) == "fbgemm";
      EXPECT_EQ(count(lowered, "aten::linear"),
                has_float16 || mapping == best_dynamic_qconfig_mapping() ? 0U : 2U);
      for (const std::vector<int64_t>& shape :
           {std::vector<int64_t>{8}, std::vector<int64_t>{5, 8}, std::vector<int64_t>{2, 5, 8}}) {
        EXPECT_GT(error_of(model, lowered, torch::randn(shape)), testing::has_vnni() ? 30 : 28)
            << engine << ", " << shape.size();
      }
    }
  }
}

}  // namespace batch_inputs_test
}  // namespace tsq
