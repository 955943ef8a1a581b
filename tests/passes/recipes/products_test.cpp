// The spellings of a product with a matrix of the model's own.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>
#include <tsq/tsq.h>

#include <span>
#include <vector>

#include "backends/kernels/engine.h"
#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace products_test {

using torch::jit::Module;

/// A layer, `product` of its output x [4, 9, 16], and a layer.
Module with_product(const std::string& product) {
  torch::manual_seed(12);
  Module model = testing::user_module("WithProduct");
  model.register_module("first", testing::linear(16, 16));
  model.register_module("last", testing::linear(16, 16));
  for (const auto& [name, sizes] :
       std::initializer_list<std::pair<const char*, std::vector<int64_t>>>{{"w", {16, 16}},
                                                                           {"v", {16, 16}},
                                                                           {"one", {1, 16, 16}},
                                                                           {"heads", {16, 4, 4}},
                                                                           {"turned", {4, 16, 4}},
                                                                           {"joined", {4, 4, 16}}})
    model.register_parameter(name, torch::randn(sizes) / 4, /*is_buffer=*/false);
  model.register_parameter("b", torch::randn({16}), /*is_buffer=*/false);
  model.define("def forward(self, x):\n  x = torch.relu(self.first.forward(x))\n  y = " + product +
               "\n  return self.last.forward(torch.relu(y))\n");
  return model;
}

at::Tensor rows() {
  torch::manual_seed(13);
  return torch::randn({4, 9, 16});
}

std::size_t float_products(const Module& model) {
  std::size_t found = 0;
  for (const char* kind : {"aten::matmul", "aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm",
                           "aten::einsum", "aten::inner", "aten::linear", "aten::mv", "aten::addmv",
                           "aten::tensordot", "aten::linalg_multi_dot", "aten::chain_matmul"})
    found += testing::count(model, kind);
  return found;
}

class Spellings : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(
    Products, Spellings,
    ::testing::Values(
        "torch.matmul(x, self.w)", "x @ self.v.t()", "x @ self.v.T", "x.matmul(self.v.mT)",
        "x @ self.v.permute(1, 0)", "x @ self.v.t().contiguous()", "x @ self.w @ self.v @ self.w",
        "(x @ torch.cat([self.w, self.v], 1)).narrow(2, 8, 16)", "x @ self.w + self.b", "self.b + x @ self.w",
        "torch.mm(x[0], self.w)", "torch.mm(x[0], self.v.t()) + self.b", "torch.addmm(self.b, x[0], self.w)",
        "torch.addmm(self.b, x[0], self.v.t(), beta=2.0, alpha=0.5)",
        "torch.bmm(x, self.w.expand(4, -1, -1))", "torch.bmm(x, self.w.unsqueeze(0).repeat(4, 1, 1))",
        "torch.bmm(x, self.one.expand(x.size(0), -1, -1))",
        "torch.baddbmm(self.b.view(1, 1, -1), x, self.w.expand(4, -1, -1))", "torch.inner(x, self.v)",
        "torch.tensordot(x, self.w, [-1], [0])", "torch.tensordot(x, self.v, [2], [1])",
        "torch.tensordot(x.transpose(1, 2), self.w, [1], [-2])",
        "torch.tensordot(x, self.heads, [2], [0]).flatten(2)",
        "torch.tensordot(x.view(4, 9, 4, 4), self.joined, [2, 3], [0, 1])",
        "torch.tensordot(x.view(4, 9, 4, 4), self.joined, [3, 2], [1, 0])",
        "torch.linalg_multi_dot([x[0], self.w, self.v.t()])", "torch.chain_matmul([x[0], self.w])",
        "torch.mm(self.v, x[0].t()).t()", "torch.matmul(self.v, x.transpose(-1, -2)).transpose(-1, -2)",
        "torch.einsum('bti,io->bto', x, self.w)", "torch.einsum('oi,bti->bto', self.v, x)",
        "torch.einsum('...i,io->...o', x, self.w)", "torch.einsum('bti,ihd->bthd', x, self.heads).flatten(2)",
        "torch.einsum('bti,hid->bhtd', x, self.turned).transpose(1, 2).flatten(2)",
        "torch.einsum('bthd,hdo->bto', x.view(4, 9, 4, 4), self.joined)"));

TEST_P(Spellings, BecomeLinearLayersOfRecipeBest) {
  const at::NoGradGuard no_grad;
  const Module model = with_product(GetParam());
  for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
    const EngineHold hold(engine_of(backend_config(engine)));
    const Module quantized = testing::best_model(model, rows(), engine);
    EXPECT_EQ(float_products(quantized), 0) << engine;
    const at::Tensor wanted = testing::run(model, rows());
    const at::Tensor got = testing::run(quantized, rows());
    ASSERT_EQ(wanted.sizes(), got.sizes());
    EXPECT_GT(testing::sqnr(wanted, got), 24) << engine;
  }
}

class OtherSums : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Products, OtherSums,
                         ::testing::Values("torch.einsum('bti,bio->bto', x, self.one.expand(4, -1, -1))",
                                           "torch.einsum('bti,io->boi', x, self.w)",
                                           "torch.einsum('bti,to->bio', x[:, :16], self.w[:9])",
                                           "torch.einsum('bti,oi->bti', x, self.v)",
                                           "torch.tensordot(x, x, [0, 1], [0, 1])",
                                           "torch.linalg_multi_dot([x[0].t(), x[0], self.w])",
                                           "torch.bmm(x, x.transpose(1, 2)) @ x"));

TEST_P(OtherSums, AreNoProductsWithAMatrixAndStayWhatTheyAre) {
  const at::NoGradGuard no_grad;
  const Module model = with_product(GetParam());
  const Module quantized = testing::best_model(model, rows(), "x86");
  EXPECT_GT(float_products(quantized), 0);
  EXPECT_GT(testing::sqnr(testing::run(model, rows()), testing::run(quantized, rows())), 24);
}

TEST(Products, AMatrixTimesAVectorIsALinearLayerOfOneRow) {
  const at::NoGradGuard no_grad;
  for (const char* product : {"torch.mv(self.v, x[0, 0])", "torch.addmv(self.b, self.w.t(), x[0, 0])"}) {
    const Module model = with_product(product);
    for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
      const EngineHold hold(engine_of(backend_config(engine)));
      const Module quantized = testing::best_model(model, rows(), engine);
      EXPECT_EQ(testing::count(quantized, "aten::mv") + testing::count(quantized, "aten::addmv"), 0)
          << engine;
      const at::Tensor wanted = testing::run(model, rows());
      const at::Tensor got = testing::run(quantized, rows());
      ASSERT_EQ(wanted.sizes(), got.sizes());
      EXPECT_GT(testing::sqnr(wanted, got), 24) << engine;
    }
  }
}

std::vector<std::string> layer_texts(const Module& model, const QConfigMapping& mapping) {
  std::vector<std::string> texts;
  for (const QuantizedLayer& layer : quantized_layers(prepare(model, mapping, backend_config("x86"))))
    texts.push_back(layer.to_text());
  return texts;
}

/// Self-attention, whose layers torch.nn writes with F.linear.
Module attention() {
  Module model = testing::user_module("Attends");
  model.register_module("first", testing::linear(16, 48));
  model.register_parameter("w", torch::randn({16, 16}) / 4, /*is_buffer=*/false);
  model.register_parameter("v", torch::randn({16, 16}) / 4, /*is_buffer=*/false);
  model.define(
      "def forward(self, x):\n"
      "  q, k, v = self.first.forward(x).chunk(3, -1)\n"
      "  y = torch.scaled_dot_product_attention(torch.linear(q, self.w), k, v)\n"
      "  return torch.linear(torch.relu(torch.linear(y, self.v)), self.w)\n");
  return model;
}

TEST(Products, ALayerThatIsLeftFloatByTheNameThatAReportGaveIsTheOnlyOne) {
  const at::NoGradGuard no_grad;
  const QConfigMapping mapping = best_qconfig_mapping("x86");
  for (const Module& model : {with_product("torch.linear(torch.relu(torch.linear(x, self.w)), self.v)"),
                              with_product("torch.relu(x @ self.w) @ self.v.t()"), attention()}) {
    const std::vector<QuantizedLayer> layers =
        quantized_layers(prepare(model, mapping, backend_config("x86")));
    ASSERT_GE(layers.size(), 4U);
    for (const QuantizedLayer& layer : layers) {
      std::vector<std::string> others = layer_texts(model, mapping);
      std::erase(others, layer.to_text());
      EXPECT_EQ(layer_texts(model, keep_float(mapping, std::span(&layer, 1))), others) << layer.to_text();
    }
  }
}

TEST(ProductsOfFx, RareSpellingsStayFloatAsInPyTorch) {
  const Module model = with_product("torch.einsum('bti,io->bto', x, self.w)");
  Prepared prepared =
      prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{rows()}});
  EXPECT_EQ(testing::count(convert(prepared, backend_config("x86")), "aten::einsum"), 1);
}

}  // namespace products_test
}  // namespace tsq
