// Memory that operators write into under the eyes of others.

#include <gtest/gtest.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>

#include "ir/analysis.h"
#include "passes/rewrite/passes.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace keep_writes_test {

using torch::jit::Module;
using torch::jit::testing::FileCheck;

Module two_layers(const std::string& forward) {
  torch::manual_seed(5);
  Module model = testing::user_module("Writes");
  model.register_module("first", testing::linear(8, 8));
  model.register_module("second", testing::linear(8, 8));
  model.define(forward);
  return model;
}

Module quantized(const Module& model, const at::Tensor& x) {
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{x.clone()}});
  return convert(prepared, backend);
}

/// How far the int8 model's output is from the float model's, of the latter's size.
float distance(const Module& model) {
  torch::manual_seed(6);
  const at::Tensor x = torch::randn({4, 8});
  const at::NoGradGuard no_grad;
  Module wanted = model.clone();
  const at::Tensor expected = wanted.forward({x.clone()}).toTensor();
  const at::Tensor got = quantized(model, x).forward({x.clone()}).toTensor();
  return (got - expected).norm().item<float>() / expected.norm().item<float>();
}

ir::Model captured(const Module& model) {
  ir::Model made = testing::normalised(model);
  passes::keep_writes(made, {});
  return made;
}

TEST(KeepWrites, WhoReadsMemoryAfterAWriteReadsANewValue) {
  const ir::Model model =
      captured(two_layers("def forward(self, x):\n  y = self.first.forward(x)\n  y[:, 0] = 2.0\n  return "
                          "self.second.forward(y)\n"));
  FileCheck().check("aten::select")->check("aten::alias")->check("prim::tsq_module")->run(*model.graph);
}

TEST(KeepWrites, AModelThatWritesNothingStaysAsItIs) {
  const ir::Model model =
      captured(two_layers("def forward(self, x):\n  y = self.first.forward(x)\n  z = y[:, 1:]\n  return "
                          "self.second.forward(y), z\n"));
  FileCheck().check_not("aten::alias")->run(*model.graph);
  for (const ir::Node* node : model.graph->nodes()) EXPECT_FALSE(ir::stays_float(model, node)) << *node;
}

TEST(KeepWrites, WhatPassesMarkOnNodesIsNotPartOfTheModel) {
  const Module model =
      quantized(two_layers("def forward(self, x):\n  y = self.first.forward(x)\n  y[:, 0] = 2.0\n  return "
                           "self.second.forward(y)\n"),
                torch::ones({4, 8}));
  for (const ir::Node* node : model.get_method("forward").graph()->nodes()) {
    for (const c10::Symbol name : node->attributeNames())
      EXPECT_FALSE(std::string_view(name.toUnqualString()).starts_with("tsq_")) << *node;
  }
}

TEST(KeepWrites, AWriteInALoopIsReadInTheNextTurn) {
  const ir::Model model = captured(two_layers(
      "def forward(self, x, n: int):\n  y = self.first.forward(x)\n  for i in range(n):\n    y[i] = "
      "self.second.forward(y)[0]\n  return y\n"));
  FileCheck()
      .check("prim::Loop")
      ->check("aten::alias")
      ->check("prim::tsq_module")
      ->check("aten::copy_")
      ->check("aten::alias")
      ->check("return")
      ->run(*model.graph);
}

TEST(KeepWrites, TheInt8ModelSeesWhatIsWritten) {
  for (const char* body :
       {"  y[:, 0] = 2.0\n", "  y.view(-1).relu_()\n", "  y.transpose(0, 1)[2:4].add_(1.0)\n",
        "  if x.size(0) > 3:\n    y[:, 2] += 1.5\n",
        "  for i in range(x.size(0)):\n    y[i] = self.second.forward(y)[i] * 0.5\n"}) {
    const Module model = two_layers(std::string("def forward(self, x):\n  y = self.first.forward(x)\n") +
                                    body + "  return self.second.forward(y)\n");
    EXPECT_LT(distance(model), 0.1F) << body;
  }
}

TEST(KeepWrites, AViewOfALayersOutputIsWrittenThroughWhateverItsLayout) {
  for (const char* body :
       {"  z = y.view(-1)\n  y = torch.relu(y)\n  z += 1.0\n",
        "  z = y.view(y.size(0), -1)\n  z[:, 3] = 2.0\n  y = torch.relu(y)\n",
        "  z = y.view_as(y)\n  z[0] = 0.5\n",
        "  z = y.view(y.size(0), -1)[:, :20]\n  z.mul_(2.0)\n  y = y + 1.0\n",
        "  z = torch.as_strided(y, [4, 5], [20, 2])\n  z += 1.0\n",
        "  z = torch.as_strided(y, [4, 5], [20, 2])\n", "  z = torch.relu(y * y).view(-1)\n",
        "  z = torch.sigmoid(y * 0.5).view_as(y)\n"}) {
    torch::manual_seed(1);
    Module model = testing::user_module("Viewed");
    model.register_module("first", testing::conv2d(3, 8, 3));
    model.register_module("second", testing::conv2d(8, 8, 3));
    model.define(std::string("def forward(self, x):\n  y = self.first.forward(x)\n") + body +
                 "  return self.second.forward(y), z\n");
    model.eval();
    const at::Tensor x = torch::randn({2, 3, 12, 12});
    for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
      const QConfigMapping mapping =
          recipe == Recipe::Best ? best_qconfig_mapping("x86") : default_qconfig_mapping("x86");
      Prepared prepared = prepare(model, mapping, backend_config("x86"), {.recipe = recipe});
      calibrate(prepared, std::vector<Sample>{{x}});
      Module lowered = convert(prepared, backend_config("x86"));
      const auto wanted = model.forward({x}).toTuple();
      const auto got = lowered.forward({x}).toTuple();
      for (std::size_t i = 0; i < 2; ++i) {
        const at::Tensor a = wanted->elements()[i].toTensor();
        const at::Tensor b = got->elements()[i].toTensor();
        EXPECT_LT((a - b).norm().item<float>(), 0.1F * a.norm().item<float>()) << body << i;
      }
    }
  }
}

TEST(KeepWrites, AListHoldsWhatIsWrittenLater) {
  const ir::Model model = captured(two_layers(
      "def forward(self, x):\n  y = self.first.forward(x)\n  both = [y, x]\n  y[:, 0] = 2.0\n  return "
      "torch.cat(both, 0)\n"));
  FileCheck()
      .check("aten::copy_")
      ->check("aten::alias")
      ->check("prim::ListConstruct")
      ->check("aten::cat")
      ->run(*model.graph);
}

TEST(KeepWrites, EachWriteIsReadByWhatComesAfterIt) {
  const ir::Model model =
      captured(two_layers("def forward(self, x):\n  y = self.first.forward(x)\n  y[:, 0] = 1.0\n  z = "
                          "self.second.forward(y)\n  y[:, 1] = 2.0\n  return self.second.forward(y) + z\n"));
  FileCheck()
      .check("aten::copy_")
      ->check_next("aten::alias")
      ->check("prim::tsq_module")
      ->check("aten::copy_")
      ->check_next("aten::alias")
      ->check("prim::tsq_module")
      ->run(*model.graph);
}

TEST(KeepWrites, EachBranchReadsWhatItHasWritten) {
  const ir::Model model = captured(
      two_layers("def forward(self, x, c: bool):\n  y = self.first.forward(x)\n  if c:\n    y[:, 0] = "
                 "1.0\n    z = self.second.forward(x)\n  else:\n    y[:, 1] = 2.0\n    z = "
                 "self.second.forward(y)\n  return z\n"));
  FileCheck()
      .check("aten::copy_")
      ->check("aten::copy_")
      ->check("aten::alias")
      ->check("prim::tsq_module")
      ->run(*model.graph);
}

TEST(KeepWrites, TheRecordsOfWhatIsWrittenSaySo) {
  const ir::Model model =
      captured(two_layers("def forward(self, x):\n  y = self.first.forward(x)\n  y[:, 0] = 2.0\n  return "
                          "self.second.forward(y)\n"));
  for (const ir::Node* node : model.graph->nodes()) {
    const bool writes = node->kind() == c10::aten::copy_ || node->kind() == c10::aten::select;
    EXPECT_EQ(ir::placement_of(model, node) == ir::Placement::Written,
              writes || node->kind() == c10::aten::slice)
        << *node;
  }
}

/// Reads the running mean after a norm.
Module reads_mean(const std::string& trains) {
  Module model = testing::user_module("ReadsMean");
  model.register_module("first", testing::linear(8, 8));
  model.register_buffer("mean", torch::zeros({8}));
  model.register_buffer("variance", torch::ones({8}));
  model.define(
      "def forward(self, x):\n  m = self.mean\n  y = self.first.forward(x)\n"
      "  z = torch.batch_norm(y, None, None, m, self.variance, " +
      trains + ", 0.3, 1e-5, False)\n  return z - m\n");
  return model;
}

TEST(KeepWrites, ANormThatTrainsWritesItsStatistics) {
  const ir::Model model = captured(reads_mean("True"));
  FileCheck().check("aten::batch_norm")->check("aten::alias")->check("aten::sub")->run(*model.graph);
  for (const ir::Node* node : model.graph->nodes()) {
    const bool is_written = ir::placement_of(model, node) == ir::Placement::Written;
    EXPECT_TRUE(is_written || node->kind() != c10::aten::batch_norm);
  }
  FileCheck().check_not("aten::alias")->run(*captured(reads_mean("False")).graph);
}

TEST(KeepWrites, ANormThatTrainsStaysWhereNothingReadsItsResult) {
  Module model = reads_mean("True");
  model.define(
      "def other(self, x):\n  y = self.first.forward(x)\n"
      "  z = torch.batch_norm(y, None, None, self.mean, self.variance, True, 0.3, 1e-5, False)\n"
      "  return torch.relu(y - self.mean)\n");
  const auto graph = model.get_method("other").graph();
  ir::eliminate_dead_code(*graph);
  FileCheck().check("aten::batch_norm")->run(*graph);
}

TEST(KeepWrites, LayersBesideTheWriteAreQuantized) {
  const Module model = two_layers(
      "def forward(self, x):\n  y = self.first.forward(x)\n  y[:, 0] = 2.0\n  return "
      "self.second.forward(y)\n");
  const Module result = quantized(model, torch::randn({4, 8}));
  const auto graph = result.get_method("forward").graph();
  const auto nodes = ir::nodes_in_order(*graph);
  EXPECT_EQ(std::count_if(nodes.begin(), nodes.end(),
                          [](const ir::Node* node) {
                            return std::string_view(node->kind().toQualString()) == "quantized::linear";
                          }),
            2);
}

}  // namespace keep_writes_test
}  // namespace tsq
