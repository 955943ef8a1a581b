// Traced and frozen graphs get the plain form of their scripted twins.

#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include "ir/analysis.h"
#include "passes/match/passes.h"
#include "passes/plain/passes.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace lift_test {

using torch::jit::Module;
using torch::jit::testing::FileCheck;

ir::Model parsed(const std::string& text) {
  ir::Model model;
  model.graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(text, model.graph.get());
  return model;
}

/// Frozen, and without debug information: the sources of these models are no Python that would tell modules
/// from functions.
Module frozen(const Module& model) {
  Module copy = model.deepcopy();
  copy.eval();
  Module result = torch::jit::freeze(copy, std::nullopt, /*optimize_numerics=*/false);
  for (torch::jit::Node* node : result.get_method("forward").graph()->nodes()) node->setSourceRange({});
  return result;
}

const torch::jit::Node* node_of_kind(const ir::Model& model, const char* kind) {
  for (const torch::jit::Node* node : model.graph->nodes()) {
    if (node->kind() == c10::Symbol::fromQualString(kind)) return node;
  }
  return nullptr;
}

std::vector<int64_t> ints(const torch::jit::Value* value) {
  return torch::jit::toIValue(value).value().toIntVector();
}

at::Tensor quantized_output(const Module& model) {
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  torch::manual_seed(5);
  const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}};
  calibrate(prepared, samples);
  const at::NoGradGuard no_grad;
  Module lowered = convert(prepared, backend);
  return lowered.forward(samples.front()).toTensor();
}

TEST(Untrace, AConvolutionOfTracedFilesIsAnOrdinaryOne) {
  ir::Model model = parsed(R"(graph(%self, %x : Tensor, %w : Tensor, %b : Tensor):
  %stride : int[] = prim::Constant[value=[2, 2]]()
  %padding : int[] = prim::Constant[value=[0, 1]]()
  %dilation : int[] = prim::Constant[value=[1, 3]]()
  %output : int[] = prim::Constant[value=[0, 0]]()
  %no : bool = prim::Constant[value=0]()
  %groups : int = prim::Constant[value=4]()
  %y : Tensor = aten::_convolution(%x, %w, %b, %stride, %padding, %dilation, %no, %output, %groups, %no, %no, %no, %no)
  return (%y))");
  passes::untrace(model, {});
  const torch::jit::Node* conv = node_of_kind(model, "aten::conv2d");
  ASSERT_NE(conv, nullptr);
  ASSERT_EQ(conv->inputs().size(), 7u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(conv->input(i), model.graph->inputs().at(i + 1));
  EXPECT_EQ(ints(conv->input(3)), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(ints(conv->input(4)), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(ints(conv->input(5)), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(torch::jit::toIValue(conv->input(6))->toInt(), 4);
}

TEST(Untrace, ATransposedOneHasItsArgumentsInTheirOrder) {
  ir::Model model = parsed(R"(graph(%self, %x : Tensor, %w : Tensor, %b : Tensor):
  %stride : int[] = prim::Constant[value=[2]]()
  %padding : int[] = prim::Constant[value=[3]]()
  %dilation : int[] = prim::Constant[value=[5]]()
  %output : int[] = prim::Constant[value=[1]]()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %groups : int = prim::Constant[value=4]()
  %y : Tensor = aten::_convolution(%x, %w, %b, %stride, %padding, %dilation, %yes, %output, %groups, %no, %no, %no, %no)
  return (%y))");
  passes::untrace(model, {});
  const torch::jit::Node* conv = node_of_kind(model, "aten::conv_transpose1d");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(ints(conv->input(3)), std::vector<int64_t>{2});
  EXPECT_EQ(ints(conv->input(4)), std::vector<int64_t>{3});
  EXPECT_EQ(ints(conv->input(5)), std::vector<int64_t>{1});
  EXPECT_EQ(torch::jit::toIValue(conv->input(6))->toInt(), 4);
  EXPECT_EQ(ints(conv->input(7)), std::vector<int64_t>{5});
}

/// nn.ConvTranspose2d computes it from output_size, where the file's own class is that.
TEST(Lift, AnArgumentThatIsComputedWhenTheModelRunsIsNoModules) {
  for (const bool is_constant : {true, false}) {
    Module model = testing::user_module("Up");
    model.register_parameter("weight", torch::randn({4, 4, 3, 3}), false);
    model.define(
        std::string("def forward(self, x):\n  more = ") + (is_constant ? "[1, 1]" : "[x.size(0) % 2, 1]") +
        "\n  return torch.conv_transpose2d(x, self.weight, None, [2, 2], [1, 1], more, 1, [1, 1])\n");
    model.eval();
    const Sample sample{torch::randn({3, 4, 5, 5})};
    Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend_config("x86"));
    calibrate(prepared, std::vector<Sample>{sample});
    const at::Tensor wanted = model.forward(sample).toTensor();
    const at::Tensor got =
        Module(convert(prepared, backend_config("x86")).module()).forward(sample).toTensor();
    ASSERT_EQ(got.sizes(), wanted.sizes()) << is_constant;
    EXPECT_LT((got - wanted).norm().item<double>(), 0.05 * wanted.norm().item<double>()) << is_constant;
  }
}

TEST(Untrace, ASizeThatTracingMadeATensorIsANumberAgain) {
  ir::Model model = parsed(R"(graph(%self, %x : Tensor, %n : int):
  %t : Tensor = prim::NumToTensor(%n)
  %m : int = aten::Int(%t)
  %sizes : int[] = prim::ListConstruct(%m)
  %y : Tensor = aten::reshape(%x, %sizes)
  return (%y))");
  passes::untrace(model, {});
  FileCheck().check_not("aten::Int")->check("prim::ListConstruct(%n)")->run(*model.graph);
}

/// A constant in place of the graph's last input: the parser reads no tensors.
void make_last_input_constant(const ir::Model& model, const at::Tensor& tensor) {
  const torch::jit::WithInsertPoint guard(*model.graph->nodes().begin());
  const std::size_t last = model.graph->inputs().size() - 1;
  model.graph->inputs()[last]->replaceAllUsesWith(model.graph->insertConstant(tensor));
  model.graph->eraseInput(last);
}

TEST(Untrace, ArithmeticWithSizesIsArithmeticWithNumbersAgain) {
  ir::Model model = parsed(R"(graph(%self, %x : Tensor, %n : int, %two : Tensor):
  %one : int = prim::Constant[value=1]()
  %t : Tensor = prim::NumToTensor(%n)
  %half : Tensor = aten::floor_divide(%t, %two)
  %more : Tensor = aten::add(%half, %t, %one)
  %m : int = aten::Int(%more)
  %sizes : int[] = prim::ListConstruct(%m)
  %y : Tensor = aten::reshape(%x, %sizes)
  return (%y))");
  make_last_input_constant(model, at::scalar_tensor(2, at::kLong));
  passes::untrace(model, {});
  FileCheck()
      .check_not("NumToTensor")
      ->check("aten::floordiv(%n")
      ->check("aten::add(")
      ->check("aten::reshape")
      ->run(*model.graph);
}

/// As torch.nn.functional.multi_head_attention_forward is traced.
TEST(Untrace, ASizeThatIsDividedTowardsZeroIsDividedDown) {
  ir::Model model = parsed(R"(graph(%self, %x : Tensor):
  %two : int = prim::Constant[value=2]()
  %four : int = prim::Constant[value=4]()
  %mode : str = prim::Constant[value="trunc"]()
  %n : int = aten::size(%x, %two)
  %t : Tensor = prim::NumToTensor(%n)
  %width : Tensor = aten::div(%t, %four, %mode)
  %m : int = aten::Int(%width)
  %sizes : int[] = prim::ListConstruct(%m)
  %y : Tensor = aten::reshape(%x, %sizes)
  return (%y))");
  passes::untrace(model, {});
  FileCheck().check_not("aten::div")->check("aten::floordiv")->check("aten::reshape")->run(*model.graph);
}

/// Python's `n += 1` on a size.
TEST(Untrace, ASizeThatIsWrittenStaysATensor) {
  ir::Model model = parsed(R"(graph(%self, %x : Tensor, %n : int):
  %one : int = prim::Constant[value=1]()
  %t : Tensor = prim::NumToTensor(%n)
  %u : Tensor = aten::add_(%t, %one, %one)
  %m : int = aten::Int(%t)
  %sizes : int[] = prim::ListConstruct(%m)
  %y : Tensor = aten::reshape(%x, %sizes)
  return (%y))");
  passes::untrace(model, {});
  FileCheck().check("NumToTensor")->check("aten::Int")->check("aten::reshape")->run(*model.graph);
}

TEST(Untrace, WhatInterpolateCallsIsInterpolate) {
  const ir::Model model = parsed(R"(graph(%self, %x : Tensor):
  %size : int[] = prim::Constant[value=[4, 4]]()
  %none : NoneType = prim::Constant()
  %y : Tensor = aten::upsample_nearest2d(%x, %size, %none)
  return (%y))");
  const auto targets = ir::targets(model, node_of_kind(model, "aten::upsample_nearest2d"));
  ASSERT_EQ(targets.size(), 1u);
  EXPECT_EQ(targets.front(), symbol("torch.nn.functional.interpolate"));
}

/// torch.jit.optimize_for_inference writes a linear layer so.
TEST(Untrace, AProductWithAConstantWithoutSourceIsALinearLayer) {
  Module model = testing::user_module("Optimized");
  model.register_module("linear", testing::linear(8, 4));
  model.define("def forward(self, x):\n  return self.linear.forward(x)\n");
  model.eval();
  Module optimized = torch::jit::optimize_for_inference(model);
  ir::Model made = testing::captured(optimized);
  passes::untrace(made, {});
  FileCheck().check_not("aten::matmul")->check("aten::linear")->run(*made.graph);
  passes::normalise(made, {});
  passes::lift(made, {});
  FileCheck().check("prim::tsq_module")->run(*made.graph);
}

TEST(Capture, AModelInTheLayoutOfOneDnnIsRefusedWithASentence) {
  Module model = testing::conv_bn_relu();
  model.eval();
  const Module optimized = torch::jit::optimize_for_inference(model);
  try {
    testing::captured(optimized);
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_NE(error.problem().find("optimized for inference"), std::string::npos) << error.what();
  }
}

/// A batch norm between operators that do not tell its rank.
TEST(Lift, ABatchNormOfUnknownRankRunsOnWhatItIsGiven) {
  torch::manual_seed(4);
  Module model = testing::user_module("Alone");
  model.register_module("bn", testing::batch_norm2d(3));
  model.define("def forward(self, x):\n  return self.bn.forward(x)\n");
  EXPECT_TRUE(at::equal(quantized_output(frozen(model)), quantized_output(model)));
}

TEST(Lift, AFrozenModelGivesTheInt8ModelOfItsScriptedTwin) {
  torch::manual_seed(2);
  const Module model = testing::conv_bn_relu();
  EXPECT_TRUE(at::equal(quantized_output(frozen(model)), quantized_output(model)));
}

TEST(Lift, FrozenConvolutionAndBatchNormAreFusedAgain) {
  ir::Model model = testing::lifted(frozen(testing::conv_bn_relu()));
  passes::fuse(model, {.table = backend_config("x86")});
  ASSERT_EQ(std::count_if(model.graph->nodes().begin(), model.graph->nodes().end(), ir::is_module_call), 1);
  for (const ir::Node* node : model.graph->nodes()) {
    if (!ir::is_module_call(node)) continue;
    EXPECT_EQ(ir::call_of(model, node).type, symbol("torch.ao.nn.intrinsic.ConvReLU2d"));
  }
}

TEST(Lift, AConvolutionWhoseWeightIsComputedStaysAFunction) {
  Module model = testing::user_module("Computed");
  model.register_parameter("w", torch::randn({4, 3, 1, 1}), false);
  model.define("def forward(self, x):\n  return torch.conv2d(x, self.w * x.sum())\n");
  const ir::Model made = testing::lifted(model);
  FileCheck().check("aten::conv2d")->run(*made.graph);
}

TEST(Lift, AWeightThatTheModelWritesIsNoParameter) {
  Module model = testing::user_module("Fast");
  model.register_buffer("w", torch::randn({4, 3, 1, 1}));
  model.define("def forward(self, x):\n  y = torch.conv2d(x, self.w)\n  self.w.mul_(2)\n  return y\n");
  const ir::Model made = testing::lifted(model);
  FileCheck().check("aten::conv2d")->run(*made.graph);
}

}  // namespace lift_test
}  // namespace tsq
