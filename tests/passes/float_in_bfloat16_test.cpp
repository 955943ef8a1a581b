// What stays float computes in bfloat16.

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <sstream>

#include "ir/quantize_operators.h"
#include "passes/tune/passes.h"
#include "support/graph_model.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace float_in_bfloat16_test {

using torch::jit::Module;

bool machine_has_bfloat16() {
  torch::jit::Stack stack;
  c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_is_mkldnn_bf16_supported", "").callBoxed(&stack);
  return stack.back().toBool();
}

/// Two layers with a product of both between them; the result is float.
Module two_layers() {
  Module model = testing::user_module("TwoLayers");
  model.register_module("first", testing::linear(32, 32));
  model.register_module("second", testing::linear(32, 32));
  model.register_module("relu", testing::relu());
  model.define(
      "def forward(self, x):\n"
      "  y = self.relu.forward(self.first.forward(x))\n"
      "  z = torch.matmul(y, y.transpose(0, 1)).softmax(-1)\n"
      "  return self.second.forward(torch.matmul(z, y)) + y\n");
  return model;
}

std::size_t casts_in(const ir::Model& model) {
  std::size_t count = 0;
  for (const torch::jit::Node* node : model.graph->nodes()) count += node->kind() == c10::aten::to ? 1 : 0;
  return count;
}

TEST(FloatInBFloat16, CastsSinkThroughWhatKeepsTheDtype) {
  ir::Model model = testing::normalised(two_layers());
  EXPECT_TRUE(passes::float_in_bfloat16(model, {}));
  EXPECT_EQ(casts_in(model), 2U) << "the input's and the result's";
  torch::jit::testing::FileCheck()
      .check("aten::to")
      ->check("tsq_module")
      ->check("aten::matmul")
      ->check("aten::softmax")
      ->run(*model.graph);
}

TEST(FloatInBFloat16, NumbersThatAreNoFloatTensorsStay) {
  Module model = testing::user_module("Products");
  model.define("def forward(self, x, y):\n  return torch.matmul(x, y)\n");
  ir::Model made = testing::normalised(model);
  EXPECT_FALSE(passes::float_in_bfloat16(made, {}));
  EXPECT_EQ(casts_in(made), 0U) << "the inputs may be integers";
}

TEST(FloatInBFloat16, WeightsThatArePackedOfParametersAreComputedInFloat) {
  ir::Model model = testing::model_of_graph("%x : Tensor, %w : Tensor", R"(
  %p : Tensor = aten::matmul(%w, %w)
  %q : Tensor = aten::quantize_per_tensor(%p, %scale, %zero, %quint8)
  %packed = quantized::linear_prepack(%q, %none)
  %y : Tensor = quantized::linear_dynamic(%x, %packed, %no)
  %z : Tensor = aten::matmul(%y, %w)
  return (%z)
)");
  testing::put_attribute(model, "w", torch::ones({4, 4}));
  EXPECT_TRUE(passes::float_in_bfloat16(model, {}));
  EXPECT_EQ(casts_in(model), 2U) << "around the second product";
  EXPECT_EQ(testing::node_named(model, "p")->output()->uses().front().user->kind(), ir::kQuantize);
}

TEST(FloatInBFloat16, WhatIsWrittenInPlaceKeepsItsViews) {
  Module model = testing::user_module("InPlace");
  model.register_module("layer", testing::linear(32, 32));
  model.define(
      "def forward(self, x):\n"
      "  y = self.layer.forward(x)\n"
      "  z = y.transpose(0, 1)\n"
      "  y.add_(1.0)\n"
      "  y.fill_(2.0)\n"
      "  return z\n");
  ir::Model made = testing::normalised(model);
  passes::float_in_bfloat16(made, {});
  const torch::jit::Node* transpose = nullptr;
  for (const torch::jit::Node* node : made.graph->nodes()) {
    if (node->kind() == c10::aten::transpose) transpose = node;
  }
  ASSERT_NE(transpose, nullptr);
  EXPECT_EQ(transpose->input(0)->node()->kind(), c10::aten::to) << "the view is one of the float tensor";
}

TEST(FloatInBFloat16, AModelStaysNearItselfAndGivesFloat) {
  const Module model = two_layers();
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, QConfigMapping(), backend, {.recipe = Recipe::Fx});
  const Reference reference = convert_to_reference(prepared, backend);
  const LoweringOptions options{.float_dtype = c10::ScalarType::BFloat16};
  if (!machine_has_bfloat16()) {
    EXPECT_THROW(static_cast<void>(lower(reference, backend, options)), Error);
    return;
  }
  const at::NoGradGuard no_grad;
  std::stringstream stream;
  lower(reference, backend, options).module().save(stream);
  Module loaded = torch::jit::load(stream);
  torch::manual_seed(0);
  const at::Tensor x = torch::randn({6, 32});
  Module original = model;
  const at::Tensor expected = original.forward({x}).toTensor();
  const at::Tensor got = loaded.forward({x}).toTensor();
  EXPECT_EQ(got.scalar_type(), at::kFloat);
  const double error = (got - expected).norm().item<double>() / expected.norm().item<double>();
  EXPECT_LT(error, 0.02);
  EXPECT_GT(error, 1e-5) << "it computes in float";
  EXPECT_THROW(static_cast<void>(lower(reference, backend, {.float_dtype = c10::ScalarType::Double})), Error);
}

}  // namespace float_in_bfloat16_test
}  // namespace tsq
