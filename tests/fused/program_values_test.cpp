// What is inside of a program's call: the values that verify compares.
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>

#include "support/small_models.h"
#include "trial/captured.h"

namespace tsq::detail {
namespace {

using ::testing::ElementsAre;
using torch::jit::Module;

/// Two convolutions with a residual sum, a pool and a linear layer.
Module network() {
  Module model = testing::user_module("Net");
  model.register_module("first", testing::conv2d(3, 8, 3));
  model.register_module("second", testing::conv2d(8, 8, 3));
  model.register_module("relu", testing::relu());
  model.register_module("pool", testing::max_pool2d());
  model.register_module("head", testing::linear(8 * 6 * 6, 64));
  model.define(
      "def forward(self, x):\n"
      "  y = self.relu.forward(self.first.forward(x))\n"
      "  y = self.pool.forward(self.relu.forward(self.second.forward(y) + y))\n"
      "  return self.head.forward(torch.flatten(y, 1))\n");
  model.eval();
  return model;
}

class InsideAProgram : public ::testing::Test {
 protected:
  InsideAProgram() {
    torch::manual_seed(11);
    model_ = network();
    for (int i = 0; i < 4; ++i) samples_.push_back({torch::randn({2, 3, 12, 12})});
    const BackendConfig backend =
        mode_backend_config(QuantizeMode::Static, Recipe::Best, backend_config("x86"));
    Prepared prepared =
        prepare(model_, best_qconfig_mapping("x86"), backend, {.recipe = {.target = LoweringTarget::Fused}});
    calibrate(prepared, samples_);
    fused_ = convert(prepared, backend).module();
    operations_ = capture(fused_, samples_[0]);
  }

  const Captured& of_layer(const std::string& layer, const std::string& kind) {
    const auto found = std::ranges::find_if(
        operations_, [&](const Captured& op) { return op.path == layer && op.kind == kind; });
    EXPECT_NE(found, operations_.end()) << layer;
    return *found;
  }

  Module model_{};
  Module fused_{};
  std::vector<Sample> samples_{};
  std::vector<Captured> operations_{};
};

at::Tensor numbers(const at::Tensor& tensor) { return tensor.is_quantized() ? tensor.dequantize() : tensor; }

TEST_F(InsideAProgram, OperationsStandWithWhatFollowsThemInTheOrderOfTheRun) {
  std::vector<std::string> kinds;
  for (const Captured& op : operations_) kinds.push_back(op.kind);
  EXPECT_THAT(
      kinds, ElementsAre("tsq::convolution", "tsq::convolution", "tsq::add", "tsq::max_pool", "tsq::linear"));
  EXPECT_TRUE(of_layer("first", "tsq::convolution").output.is_quantized())
      << "after its ReLU and its rounding";
  EXPECT_GE(of_layer("first", "tsq::convolution").output.dequantize().min().item<float>(), 0);
}

TEST_F(InsideAProgram, TheLastValueIsWhatTheModelReturns) {
  const c10::InferenceMode no_gradients;
  EXPECT_TRUE(at::equal(operations_.back().output, fused_.forward(samples_[0]).toTensor()));
}

TEST_F(InsideAProgram, ValuesAreNearThoseOfTheFloatModel) {
  const at::Tensor wanted = at::relu(model_.attr("first").toModule().forward(samples_[0]).toTensor());
  const Captured& first = of_layer("first", "tsq::convolution");
  EXPECT_LT((numbers(first.output) - wanted).abs().max().item<double>(), 3 * first.output.q_scale());
}

TEST_F(InsideAProgram, AnOperationIsComputedOnOtherValues) {
  for (const Captured& op : operations_) {
    ASSERT_TRUE(op.compute) << op.kind;
    EXPECT_TRUE(at::equal(numbers(op.compute(op.input)), numbers(op.output))) << op.kind;
  }
  const Captured& head = of_layer("head", "tsq::linear");
  const at::Tensor zeros = at::zeros_like(numbers(head.input));
  const at::Tensor other = head.input.is_quantized()
                               ? at::quantize_per_tensor(zeros, head.input.q_scale(),
                                                         head.input.q_zero_point(), head.input.scalar_type())
                               : zeros;
  const at::Tensor wanted =
      at::linear(numbers(head.input).flatten(1).to(at::kDouble), head.weight).to(at::kFloat);
  EXPECT_TRUE(at::allclose(head.output - head.compute(other), wanted, 1e-4, 1e-4)) << "all but the bias";
}

TEST_F(InsideAProgram, WeightsAreThoseOfTheLayers) {
  for (const std::string layer : {"first", "second"}) {
    const at::Tensor exact = model_.attr(layer).toModule().attr("weight").toTensor();
    const at::Tensor weight = of_layer(layer, "tsq::convolution").weight;
    ASSERT_EQ(weight.sizes(), exact.sizes());
    EXPECT_LT((weight - exact).abs().max().item<double>(), exact.abs().max().item<double>() / 60);
  }
}

TEST_F(InsideAProgram, TheComparisonHasRowsOfItsLayers) {
  const ComparedLayers compared = compare_layers(model_, fused_, samples_);
  for (const std::string layer : {"first", "second", "head"}) {
    const auto row = std::ranges::find(compared.rows, layer, &LayerComparison::layer);
    ASSERT_NE(row, compared.rows.end()) << layer;
    EXPECT_GT(row->sqnr_db, 20) << layer;
    EXPECT_GT(row->alone_sqnr_db.value_or(0), 25) << layer;
    EXPECT_GT(row->weight_sqnr_db.value_or(0), 25) << layer;
  }
  EXPECT_GT(compared.rows.front().codes_used.value_or(0), 50);
}

}  // namespace
}  // namespace tsq::detail
