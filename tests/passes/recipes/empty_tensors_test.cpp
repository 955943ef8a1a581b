// Tensors without elements, in samples and in models that run.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>
#include <tsq/tsq.h>

#include <sstream>

#include "backends/kernels/engine.h"
#include "support/best_model.h"
#include "support/processor.h"
#include "support/small_models.h"

namespace tsq {
namespace empty_tensors_test {

using torch::jit::Module;

class EmptyTensors : public ::testing::TestWithParam<const char*> {
 protected:
  Module quantized(const Module& model, const std::vector<Sample>& samples, Recipe recipe) {
    const BackendConfig backend = backend_config(GetParam());
    const QConfigMapping mapping =
        recipe == Recipe::Best ? best_qconfig_mapping(GetParam()) : testing::default_mapping_here(GetParam());
    Prepared prepared = prepare(model, mapping, backend, {.recipe = recipe});
    calibrate(prepared, samples);
    std::stringstream file;
    convert(prepared, backend).module().save(file);
    return torch::jit::load(file);
  }

 private:
  EngineHold engine_{engine_of(backend_config(GetParam()))};
};

INSTANTIATE_TEST_SUITE_P(Engines, EmptyTensors, ::testing::Values("x86", "fbgemm", "onednn", "qnnpack"),
                         [](const auto& engine) { return std::string(engine.param); });

/// Layers over x, joined with those of a cache that may be empty.
Module decoder() {
  torch::manual_seed(1);
  Module model = testing::user_module("Decoder");
  model.register_module("q", testing::linear(8, 8));
  model.register_module("k", testing::linear(8, 8));
  model.register_module("o", testing::linear(8, 8));
  model.define(
      "def forward(self, x, cache: List[Tensor]):\n  k = self.k.forward(torch.cat([cache[0], "
      "self.q.forward(x)], "
      "1))\n  return self.o.forward(k[:, -2:])\n");
  return model;
}

Sample step(int64_t cached) {
  return {torch::randn({1, 2, 8}), c10::List<at::Tensor>({torch::randn({1, cached, 8})})};
}

TEST_P(EmptyTensors, ACacheMayBeEmptyInSamplesAndLater) {
  const at::NoGradGuard no_grad;
  Module model = decoder();
  torch::manual_seed(2);
  std::vector<Sample> samples;
  for (int i = 0; i < 12; ++i) samples.push_back(step(i % 3));
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    Module result = quantized(model, samples, recipe);
    for (const int64_t cached : {0, 3}) {
      const Sample sample = step(cached);
      EXPECT_GT(testing::sqnr(model.forward(sample).toTensor(), result.forward(sample).toTensor()), 18);
    }
  }
}

TEST_P(EmptyTensors, ABatchMayBeEmptyWhenTheModelRuns) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(3);
  Module model = testing::user_module("Head");
  model.register_module("conv", testing::conv2d(3, 8, 3));
  model.register_module("second", testing::conv2d(8, 8, 3));
  model.register_module("bn", testing::batch_norm2d(8));
  model.register_module("fc", testing::linear(8, 4));
  model.define(
      "def forward(self, x):\n  y = torch.relu(self.conv.forward(x))\n  y = "
      "torch.sigmoid(self.second.forward(y)) * "
      "y\n  y = torch.cat([self.bn.forward(y), y])\n  return "
      "self.fc.forward(torch.relu(self.fc.forward(torch.flatten(torch.adaptive_avg_pool2d(y, [1, 1]), "
      "1)).repeat([1, "
      "2])))\n");
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({torch::randn({2, 3, 12, 12})});
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    Module result = quantized(model, samples, recipe);
    EXPECT_EQ(result.forward({torch::randn({0, 3, 12, 12})}).toTensor().sizes(),
              (std::vector<int64_t>{0, 4}));
  }
}

TEST_P(EmptyTensors, AnActivationMayReadNothing) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(5);
  Module model = testing::user_module("Rows");
  model.register_module("a", testing::conv2d(3, 8, 3));
  model.register_module("b", testing::conv2d(8, 8, 1));
  model.register_module("c", testing::conv2d(8, 4, 1));
  model.define(
      "def forward(self, x):\n"
      "  x = self.b.forward(torch.hardswish(self.a.forward(x)))\n"
      "  return self.c.forward(torch.hardsigmoid(x))\n");
  const at::Tensor x = torch::randn({2, 3, 8, 8});
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    Module result = quantized(model, {{x}}, recipe);
    EXPECT_EQ(result.forward({x.slice(0, 0, 0)}).toTensor().sizes(), (std::vector<int64_t>{0, 4, 8, 8}));
    EXPECT_GT(testing::sqnr(model.forward({x}).toTensor(), result.forward({x}).toTensor()), 20);
  }
}

TEST_P(EmptyTensors, ASampleOfNothingElseIsRefused) {
  const BackendConfig backend = backend_config(GetParam());
  Prepared prepared = prepare(decoder(), best_qconfig_mapping(GetParam()), backend, {.recipe = Recipe::Fx});
  const Sample nothing{torch::randn({0, 2, 8}), c10::List<at::Tensor>({torch::randn({0, 3, 8})})};
  EXPECT_THROW(calibrate(prepared, std::vector<Sample>{nothing}), Error);
}

}  // namespace empty_tensors_test
}  // namespace tsq
