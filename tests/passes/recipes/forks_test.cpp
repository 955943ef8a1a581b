// What torch.jit.fork runs, and modules that an interface chooses, are part of the graph.

#include <gtest/gtest.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <sstream>

#include "ir/analysis.h"
#include "ir/model.h"
#include "support/small_models.h"

namespace tsq {
namespace forks_test {

using torch::jit::Module;

/// Knows `fork` beside what sources know by themselves.
struct WithFork : torch::jit::Resolver {
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name,
                                                         torch::jit::GraphFunction& function,
                                                         const torch::jit::SourceRange& place) override {
    if (name == "fork") return torch::jit::SpecialFormValue::create(c10::prim::fork);
    return torch::jit::nativeResolver()->resolveValue(name, function, place);
  }
};

Module two_layers(const std::string& source) {
  torch::manual_seed(5);
  Module model = testing::user_module("Forks");
  model.register_module("first", testing::linear(8, 8));
  model.register_module("second", testing::linear(8, 8));
  model.define(source, std::make_shared<WithFork>());
  return model;
}

std::vector<Sample> samples(const std::vector<int64_t>& numbers = {}) {
  torch::manual_seed(6);
  std::vector<Sample> result;
  for (int i = 0; i < 4; ++i) {
    result.push_back({torch::randn({4, 8})});
    if (!numbers.empty()) result.back().emplace_back(numbers[static_cast<std::size_t>(i) % numbers.size()]);
  }
  return result;
}

Module quantized(const Module& model, const std::vector<Sample>& data) {
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  calibrate(prepared, data);
  std::stringstream file;
  convert(prepared, backend).module().save(file);
  return torch::jit::load(file);
}

std::ptrdiff_t count(const Module& module, std::string_view kind) {
  const auto graph = module.get_method("forward").graph();
  return std::ranges::count_if(ir::nodes_in_order(*graph),
                               [&](const ir::Node* node) { return node->kind().toQualString() == kind; });
}

double sqnr(Module& model, Module& other, const Sample& sample) {
  const at::Tensor wanted = model.forward(sample).toTensor();
  const at::Tensor error = wanted - other.forward(sample).toTensor();
  return 10 * std::log10((wanted.square().sum() / error.square().sum()).item<double>());
}

void expect_all_in_int8(Module model, const std::vector<Sample>& data, std::ptrdiff_t layers) {
  model.eval();
  Module result = quantized(model, data);
  EXPECT_EQ(count(result, "quantized::linear"), layers);
  EXPECT_EQ(count(result, "aten::linear"), 0);
  EXPECT_EQ(count(result, "prim::fork"), 0);
  for (const Sample& sample : data) EXPECT_GT(sqnr(model, result, sample), 25);
}

TEST(Forks, WhatIsForkedIsQuantized) {
  expect_all_in_int8(two_layers("def forward(self, x):\n"
                                "  a = fork(self.first.forward, x)\n"
                                "  b = fork(self.second.forward, x)\n"
                                "  return torch.relu(torch.wait(a)) + torch.wait(b)\n"),
                     samples(), 2);
}

TEST(Forks, FuturesInListsAndDictsAndBranchesAreResolved) {
  expect_all_in_int8(two_layers("def forward(self, x, n: int):\n"
                                "  l = [fork(self.first.forward, x)]\n"
                                "  for i in range(n):\n"
                                "    l.append(fork(self.second.forward, x + i))\n"
                                "  y = x\n"
                                "  for f in l:\n"
                                "    y = y + torch.wait(f)\n"
                                "  return y\n"),
                     samples({2, 3}), 2);
  expect_all_in_int8(two_layers("def forward(self, x, n: int):\n"
                                "  d = {'a': fork(self.first.forward, x)}\n"
                                "  if n > 2:\n"
                                "    d['b'] = fork(self.second.forward, x)\n"
                                "  else:\n"
                                "    d['b'] = fork(self.second.forward, x + 1)\n"
                                "  return torch.wait(d['a']) + torch.wait(d['b'])\n"),
                     samples({2, 3}), 3);
}

TEST(Forks, AForkWhoseFutureIsReturnedStaysAndIsCountedInFloat) {
  Module model = two_layers(
      "def forward(self, x):\n"
      "  return fork(self.second.forward, x), self.first.forward(x)\n");
  model.eval();
  // Nobody waits for the future: what runs it may not go before it is done.
  const Prepared prepared =
      prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
  EXPECT_EQ(count(prepared.module(), "prim::fork"), 1);
  const std::vector<Decision>& decisions = prepared.report().decisions;
  const auto fork = std::ranges::find(decisions, "torch.jit.fork", &Decision::op);
  ASSERT_NE(fork, decisions.end());
  EXPECT_FALSE(fork->quantized);
  EXPECT_NE(fork->reason.find("future"), std::string::npos);
  const auto first = std::ranges::find(decisions, "first", &Decision::layer);
  ASSERT_NE(first, decisions.end());
  EXPECT_TRUE(first->quantized);
}

/// y = layers[n](x), layers a container, the class of its elements known as an interface alone.
Module with_interface(bool chooses_by_branch) {
  torch::manual_seed(5);
  Module layers = testing::user_module("Layers");
  layers.register_module("0", testing::linear(8, 8));
  layers.register_module("1", testing::linear(8, 8));
  Module model = testing::user_module("Chooses");
  model.register_module("layers", layers);
  const auto interface =
      c10::InterfaceType::create(c10::QualifiedName("__torch__.user.Layer"), /*is_module=*/true);
  std::vector<c10::Argument> arguments;
  arguments.emplace_back("self", interface);
  arguments.emplace_back("x");
  interface->addMethod(c10::FunctionSchema("forward", "", arguments, {c10::Argument("")}));

  auto graph = std::make_shared<torch::jit::Graph>();
  ir::Value* self = graph->addInput("self")->setType(model.type());
  ir::Value* x = graph->addInput("x");
  ir::Value* n = graph->addInput("n")->setType(c10::IntType::get());
  ir::Node* choice = nullptr;
  if (chooses_by_branch) {
    ir::Value* is_second = graph->insert(c10::aten::gt, {n, int64_t{0}});
    choice = graph->insertNode(graph->create(c10::prim::If, {is_second}, 1));
    for (const char* name : {"1", "0"}) {
      torch::jit::Block* branch = choice->addBlock();
      const torch::jit::WithInsertPoint guard(branch);
      branch->registerOutput(graph->insertGetAttr(graph->insertGetAttr(self, "layers"), name));
    }
  } else {
    ir::Value* list = graph->insertGetAttr(self, "layers");
    choice = graph->insertNode(graph->create(c10::prim::ModuleContainerIndex, {list, n}, 1));
  }
  choice->output()->setType(interface);
  ir::Node* call = graph->insertNode(graph->create(c10::prim::CallMethod, {choice->output(), x}, 1));
  call->s_(c10::attr::name, "forward");
  graph->registerOutput(call->output());
  auto* function = model._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*model.type()->name(), "forward"), graph);
  model.type()->addMethod(function);
  return model;
}

TEST(Forks, EachModuleThatAnInterfaceChoosesFromIsQuantized) {
  for (const bool by_branch : {false, true}) {
    Module model = with_interface(by_branch);
    model.eval();
    const std::vector<Sample> data = samples({0, 1});
    Module result = quantized(model, data);
    EXPECT_EQ(count(result, "quantized::linear"), 2);
    EXPECT_EQ(count(result, "prim::CallMethod"), 0);
    const Module& layers = model.attr("layers").toModule();
    for (const Sample& sample : data) {
      Module layer = layers.attr(std::to_string(sample[1].toInt())).toModule();
      const at::Tensor wanted = layer.forward({sample[0]}).toTensor();
      EXPECT_LT((wanted - result.forward(sample).toTensor()).abs().max().item<double>(),
                0.05 * wanted.abs().max().item<double>());
    }
    if (by_branch) continue;
    EXPECT_ANY_THROW(result.forward({data.front()[0], int64_t{2}}));
  }
}

}  // namespace forks_test
}  // namespace tsq
