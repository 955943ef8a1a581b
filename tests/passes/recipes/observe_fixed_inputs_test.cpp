// What a sigmoid or tanh takes is not cut to what it returns.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace observe_fixed_inputs_test {

using torch::jit::Module;

/// `forward` may use the linear layer fc (16 to 16).
Module one_layer(const std::string& forward) {
  torch::manual_seed(0);
  Module model = testing::user_module("OneLayer");
  model.register_module("fc", testing::linear(16, 16));
  model.define("def forward(self, x):\n" + forward);
  return model;
}

double db(const Module& model) {
  torch::manual_seed(1);
  const at::Tensor x = 2 * torch::randn({32, 16});
  return testing::sqnr(testing::run(model, x), testing::run(testing::best_model(model, x, "x86"), x));
}

TEST(ObserveFixedInputs, WhatEntersTheModelKeepsItsRange) {
  EXPECT_GT(db(one_layer("  return self.fc.forward(x * torch.sigmoid(x))\n")), 30);
  EXPECT_GT(db(one_layer("  return self.fc.forward(x * torch.tanh(x))\n")), 30);
}

TEST(ObserveFixedInputs, WhatALoopGivesKeepsItsRange) {
  EXPECT_GT(db(one_layer("  for i in range(2):\n    x = 0.5 * (x + x)\n"
                         "  return self.fc.forward(x * torch.sigmoid(x))\n")),
            30);
}

TEST(ObserveFixedInputs, WhatIsRoundedAlreadyIsRoundedOnce) {
  const Module model = one_layer("  x = self.fc.forward(x)\n  return self.fc.forward(x * torch.tanh(x))\n");
  const Module made = testing::best_model(model, torch::randn({32, 16}), "x86");
  EXPECT_LE(testing::count(made, "aten::quantize_per_tensor"), 2);
  EXPECT_GT(db(model), 30);
}

TEST(ObserveFixedInputs, RecipeFxCutsThemAsFxDoes) {
  const Module model = one_layer("  return self.fc.forward(x * torch.sigmoid(x))\n");
  const at::Tensor x = 2 * torch::randn({32, 16});
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{x}});
  EXPECT_LT(testing::sqnr(testing::run(model, x), testing::run(convert(prepared, backend), x)), 20);
}

}  // namespace observe_fixed_inputs_test
}  // namespace tsq
