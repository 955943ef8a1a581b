// A matrix that one layer multiplies with as it is and another transposed: an autoencoder with tied weights.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>
#include <tsq/tsq.h>

#include <sstream>

#include "backends/kernels/engine.h"
#include "passes/ranges/passes.h"
#include "passes/weights/passes.h"
#include "support/before_pass.h"
#include "support/best_model.h"
#include "support/calibrated_model.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"

namespace tsq {
namespace tie_transposes_test {

using torch::jit::Module;

constexpr int64_t kWide = 256;
constexpr int64_t kNarrow = 96;

Module autoencoder(bool is_tied) {
  torch::manual_seed(61);
  Module model = testing::user_module("Autoencoder");
  const at::Tensor weight = torch::randn({kNarrow, kWide}) * 0.1;
  model.register_parameter("weight", weight, false);
  model.register_parameter("other", is_tied ? weight : torch::randn({kNarrow, kWide}) * 0.1, false);
  model.register_parameter("bias", torch::randn({kWide}) * 0.1, false);
  model.define(
      "def forward(self, x):\n"
      "  h = torch.relu(torch.linear(x, self.weight))\n"
      "  return torch.linear(h, self.other.t(), self.bias)\n");
  return model;
}

at::Tensor rows() {
  torch::manual_seed(62);
  return torch::randn({64, kWide});
}

/// How often the numbers of the matrix fit into a file, a byte each.
int64_t matrices_in(const std::string& file) { return static_cast<int64_t>(file.size()) / (kWide * kNarrow); }

std::string saved(const Module& module) {
  std::ostringstream file;
  module.save(file);
  return file.str();
}

testing::CalibratedModel reference_of(const Module& model) {
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend_config("x86"),
                              {.machine = testing::slow_in_float()});
  calibrate(prepared, std::vector<Sample>{{rows()}});
  testing::CalibratedModel result = testing::calibrated_model(prepared);
  passes::take_channel_statistics(result.model, result.context);
  passes::take_input_products(result.model, result.context);
  testing::make_reference(result);
  return result;
}

TEST(TieTransposes, TheSecondLayerHasTheRoundedValuesOfTheFirst) {
  auto [model, context] = reference_of(autoencoder(true));
  EXPECT_TRUE(passes::tie_transposes(model, context));
  const ir::Node* first = testing::call_node(model, "linear_0");
  const ir::Weighted& exact = *ir::weighted_of(ir::call_of(model, first));
  const ir::Weighted& made = *ir::weighted_of(ir::call_of(model, testing::call_node(model, "linear_1")));
  EXPECT_EQ(made.weight.sizes(), (at::IntArrayRef{kWide, kNarrow}));
  const at::Tensor steps = (made.weight.t() - exact.weight).abs() / exact.weight_qparams->scale.unsqueeze(1);
  EXPECT_LE(steps.max().item<double>(), 0.51);
}

TEST(TieTransposes, MatricesThatTheFileHoldsApartStayApart) {
  auto [model, context] = reference_of(autoencoder(false));
  EXPECT_FALSE(passes::tie_transposes(model, context));
}

TEST(TieTransposes, AFileHoldsTheMatrixOnce) {
  const Module model = autoencoder(true);
  for (const std::string engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
    const Module result = testing::best_model(model, rows(), engine);
    const std::string file = saved(result);
    EXPECT_EQ(matrices_in(file), 1) << engine;
    const EngineHold hold(engine_of(backend_config(engine)));
    std::istringstream stream(file);
    const Module again = torch::jit::load(stream);
    EXPECT_TRUE(at::equal(testing::run(result, rows()), testing::run(again, rows()))) << engine;
    EXPECT_EQ(testing::count(again, "aten::linear"), 0U) << engine;
    EXPECT_GT(testing::sqnr(testing::run(model, rows()), testing::run(again, rows())), 25) << engine;
  }
}

}  // namespace tie_transposes_test
}  // namespace tsq
