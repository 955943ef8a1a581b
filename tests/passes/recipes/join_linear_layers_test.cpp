// Linear layers that quantize one input at run time, in recipe best.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include "support/best_model.h"
#include "support/lowered.h"
#include "support/small_models.h"

namespace tsq {
namespace join_linear_layers_test {

using testing::count;
using torch::jit::Module;

constexpr const char* kKernel = "quantized::linear_dynamic";

/// Of self.q, self.k and self.v (8 → 6, 4 and 6) and x, `body` computes y.
Module network(const std::string& body) {
  torch::manual_seed(1);
  Module model = testing::user_module("Attention");
  model.register_module("q", testing::linear(8, 6));
  model.register_module("k", testing::linear(8, 4));
  model.register_module("v", testing::linear(8, 6));
  model.define("def forward(self, x):\n" + body + "  return y\n");
  return model;
}

Module dynamic_model(const Module& model, const std::string& engine = "x86", Report* report = nullptr) {
  const BackendConfig backend = backend_config(engine);
  const Prepared prepared = prepare(model, best_dynamic_qconfig_mapping(), backend, {.recipe = Recipe::Best});
  return testing::lowered(convert_to_reference(prepared, backend), backend, report);
}

at::Tensor input() {
  torch::manual_seed(2);
  return torch::randn({2, 5, 8});
}

const std::string kThree =
    "  y = torch.cat([torch.tanh(self.q.forward(x)), self.k.forward(x) * 2, torch.relu(self.v.forward(x))], "
    "-1)\n";

class JoinLinearLayers : public ::testing::TestWithParam<const char*> {};

TEST_P(JoinLinearLayers, ThatReadOneInputAreOneWithTheSameResults) {
  const Module joined = dynamic_model(network(kThree), GetParam());
  EXPECT_EQ(count(joined, kKernel) + count(joined, "quantized::linear_relu_dynamic"), 2U);
  std::vector<at::Tensor> apart;
  for (const char* body : {"  y = torch.tanh(self.q.forward(x))\n", "  y = self.k.forward(x) * 2\n",
                           "  y = torch.relu(self.v.forward(x))\n"})
    apart.push_back(testing::run(dynamic_model(network(body), GetParam()), input()));
  EXPECT_TRUE(at::equal(testing::run(joined, input()), at::cat(apart, -1)));
}

INSTANTIATE_TEST_SUITE_P(Engines, JoinLinearLayers, ::testing::Values("x86", "fbgemm", "onednn", "qnnpack"));

TEST(JoinLinearLayers, TakesThoseOfOneKernelOnly) {
  const Module joined = dynamic_model(network(kThree));
  EXPECT_EQ(count(joined, kKernel), 1U);
  EXPECT_EQ(count(joined, "quantized::linear_relu_dynamic"), 1U);
}

TEST(JoinLinearLayers, SaysSoInTheReport) {
  Report report;
  dynamic_model(network(kThree), "x86", &report);
  std::vector<std::string> layers;
  for (const Decision& decision : report.decisions) {
    if (!decision.notes.empty() && decision.notes.back().starts_with("its input is quantized once"))
      layers.push_back(decision.layer);
  }
  EXPECT_THAT(layers, ::testing::ElementsAre("q", "k"));
}

TEST(JoinLinearLayers, WhoseOutputsAreSeenInOtherShapes) {
  const Module model = network(
      "  b, t = x.size(0), x.size(1)\n"
      "  q = self.q.forward(x).view(b, t * 6)\n"
      "  v = self.v.forward(x).view(b, t, 2, 3).transpose(1, 2)\n"
      "  y = torch.sum(q) + v\n");
  const Module joined = dynamic_model(model);
  EXPECT_EQ(count(joined, kKernel), 1U);
  EXPECT_GT(testing::sqnr(testing::run(model, input()), testing::run(joined, input())), 30);
}

TEST(JoinLinearLayers, UnlessSomebodyCouldSeeThatAPartIsNotContiguous) {
  const std::string two = "  q = self.q.forward(x)\n  v = self.v.forward(x)\n";
  for (const char* rest : {
           "  y = (q, v)\n",                     // the caller
           "  y = (q.transpose(0, 1), v[0])\n",  // views of them
           "  y = torch.as_strided(q, [2], [1]) + torch.as_strided(v, [2], [1])\n",
           "  q[:, 0] = 7\n  v[:, 0] = 7\n  y = q + v\n",
           "  if bool(x.sum() > 100):\n    y = q\n  else:\n    y = v\n",
       }) {
    EXPECT_EQ(count(dynamic_model(network(two + rest)), kKernel), 2U) << rest;
  }
}

TEST(JoinLinearLayers, UnlessALayerIsCalledAgain) {
  const Module model = network(
      "  y = torch.tanh(self.q.forward(x)) + torch.tanh(self.v.forward(x)) + torch.tanh(self.q.forward(x * "
      "2))\n");
  EXPECT_EQ(count(dynamic_model(model), kKernel), 3U);
}

TEST(JoinLinearLayers, UnlessTheirInputIsWrittenInBetween) {
  const Module model = network(
      "  z = x * 2\n"
      "  q = torch.tanh(self.q.forward(z))\n"
      "  z.add_(1)\n"
      "  y = q + torch.tanh(self.v.forward(z))\n");
  const Module lowered = dynamic_model(model);
  EXPECT_EQ(count(lowered, kKernel), 2U);
  EXPECT_GT(testing::sqnr(testing::run(model, input()), testing::run(lowered, input())), 30);
}

}  // namespace join_linear_layers_test
}  // namespace tsq
