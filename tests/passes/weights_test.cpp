// Passes that work on the weights and biases of a reference.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>

#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "passes/weights/passes.h"
#include "support/calibrated_model.h"
#include "support/small_models.h"
#include "torchscript/emit.h"

namespace tsq {
namespace weights_test {

using torch::jit::Module;

testing::CalibratedModel reference_of(const Module& model, const at::Tensor& input) {
  Prepared prepared =
      prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{input}});
  testing::CalibratedModel result = testing::calibrated_model(prepared);
  testing::make_reference(result);
  return result;
}

at::Tensor run(const ir::Model& model, const at::Tensor& input) {
  return torchscript::emit(model).forward({input}).toTensor();
}

/// Padding before a convolution with a stride of 2. `padding` counts from the last axis.
Module padded(const std::string& padding, double value = 0) {
  torch::manual_seed(71);
  Module model = testing::user_module("Padded");
  Module conv = testing::conv2d(3, 4, 3);
  conv.setattr("padding", std::vector<int64_t>{0, 0});
  conv.setattr("stride", std::vector<int64_t>{2, 2});
  model.register_module("conv", conv);
  model.define(fmt::format(
      "def forward(self, x):\n  return self.conv.forward(torch.constant_pad_nd(torch.relu(x), {}, {}))\n",
      padding, value));
  return model;
}

at::Tensor image() {
  torch::manual_seed(72);
  return torch::randn({2, 3, 9, 9});
}

struct Fold {
  const char* padding;
  ir::PaddingFold fold;
};

const std::vector<Fold>& folds() {
  static const std::vector<Fold> kFolds{
      {.padding = "[1, 1, 1, 1]",
       .fold = {.before = {1, 1}, .after = {1, 1}, .padding = {1, 1}, .kernel = {3, 3}, .offset = {0, 0}}},
      {.padding = "[0, 1, 0, 1]",
       .fold = {.before = {0, 0}, .after = {1, 1}, .padding = {1, 1}, .kernel = {4, 4}, .offset = {1, 1}}},
      {.padding = "[0, 1, 0, 1]",
       .fold = {.before = {0, 0},
                .after = {1, 1},
                .padding = {2, 2},
                .kernel = {5, 5},
                .offset = {2, 2},
                .may_have_too_many_outputs = true}},
  };
  return kFolds;
}

TEST(FoldPadding, AConvolutionPadsItselfAndReturnsTheSame) {
  for (const Fold& each : folds()) {
    auto [model, context] = reference_of(padded(each.padding), image());
    const at::Tensor wanted = run(model, image());
    testing::layer(model, "conv").fold = each.fold;
    EXPECT_TRUE(passes::fold_padding(model, context)) << each.padding;
    EXPECT_EQ(testing::count(model, "aten::constant_pad_nd"), 0) << each.padding;
    const ir::Weighted& conv = testing::layer(model, "conv");
    EXPECT_EQ(conv.padding, each.fold.padding);
    EXPECT_EQ(conv.weight.sizes().slice(2), at::IntArrayRef(each.fold.kernel));
    EXPECT_FALSE(conv.fold);
    const at::Tensor got = run(model, image());
    ASSERT_EQ(got.sizes(), wanted.sizes()) << each.padding;
    EXPECT_TRUE(at::allclose(got, wanted, 1e-4, 1e-4)) << each.padding;
  }
}

TEST(FoldPadding, WithoutAFoldTheOperatorStays) {
  auto [model, context] = reference_of(padded("[1, 1, 1, 1]"), image());
  EXPECT_FALSE(passes::fold_padding(model, context));
  EXPECT_EQ(testing::count(model, "aten::constant_pad_nd"), 1);
}

TEST(FoldPadding, PaddingThatIsNotZeroStays) {
  auto [model, context] = reference_of(padded("[1, 1, 1, 1]", 0.5), image());
  testing::layer(model, "conv").fold = folds().front().fold;
  EXPECT_FALSE(passes::fold_padding(model, context));
  EXPECT_EQ(testing::count(model, "aten::constant_pad_nd"), 1);
  EXPECT_EQ(testing::layer(model, "conv").padding, (std::vector<int64_t>{0, 0}));
}

/// Two of the weights add up to twice the largest code.
Module even_linear() {
  Module linear = testing::linear(8, 4);
  linear.attr("weight").toTensor().fill_(0.5);
  Module model = testing::user_module("Even");
  model.register_module("fc", linear);
  model.define("def forward(self, x):\n  return self.fc.forward(x)\n");
  return model;
}

testing::CalibratedModel even_reference(const std::string& engine) {
  testing::CalibratedModel result = reference_of(even_linear(), torch::rand({4, 8}));
  result.context.target = {.engine = engine, .cpu = TargetCpu::WithoutVnni};
  return result;
}

int64_t largest_code(ir::Model& model) {
  return kernels::quantized_weight(testing::layer(model, "fc")).int_repr().max().item<int64_t>();
}

std::vector<std::string> notes(const ir::Model& model) {
  const auto found = std::ranges::find_if(
      model.records, [](const ir::NodeRecord& record) { return record.decision.layer == "fc"; });
  return found == model.records.end() ? std::vector<std::string>{} : notes_of(found->decision);
}

TEST(BoundPairSums, ScalesGrowWhereTwoProductsWouldOverflow) {
  auto [model, context] = even_reference("x86");
  ASSERT_GT(largest_code(model), 64);
  EXPECT_TRUE(passes::bound_pair_sums(model, context));
  EXPECT_LE(largest_code(model), 64);
  ASSERT_FALSE(notes(model).empty());
  EXPECT_TRUE(notes(model).back().starts_with("the weights of 4 of 4 channels have larger scales"));
  EXPECT_FALSE(passes::bound_pair_sums(model, context)) << "they are bound already";
}

TEST(BoundPairSums, ProgramsForProcessorsWithoutVnniHaveBoundSums) {
  for (const TargetCpu cpu : {TargetCpu::Vnni, TargetCpu::WithoutVnni}) {
    auto [model, context] = even_reference("x86");
    context.target.runtime = LoweringTarget::Fused;
    context.target.cpu = cpu;
    EXPECT_EQ(passes::bound_pair_sums(model, context), cpu == TargetCpu::WithoutVnni);
  }
}

TEST(BoundPairSums, KernelsThatAddIn32BitsKeepTheirScales) {
  auto [model, context] = even_reference("qnnpack");
  EXPECT_FALSE(passes::bound_pair_sums(model, context));
  EXPECT_GT(largest_code(model), 64);
}

TEST(BoundPairSums, OnlyNeighboursCountWhereTheKernelAddsNoOthers) {
  for (const auto& [engine, grows] : {std::pair{"x86", false}, {"fbgemm", false}, {"onednn", true}}) {
    auto [model, context] = even_reference(engine);
    at::Tensor& weight = testing::layer(model, "fc").weight;
    weight = weight * torch::tensor({1, 0}).repeat({4});
    EXPECT_EQ(passes::bound_pair_sums(model, context), grows) << engine;
  }
}

TEST(BoundPairSums, WeightsBeyondTheCodesStayWhereTheyWereCut) {
  auto [model, context] = even_reference("x86");
  ir::Weighted& fc = testing::layer(model, "fc");
  const at::Tensor cut = fc.weight.clone();
  fc.weight = 3 * fc.weight;  // as training with a scale of its own leaves them
  EXPECT_TRUE(passes::bound_pair_sums(model, context));
  EXPECT_TRUE(at::allclose(kernels::quantized_weight(fc).dequantize(), cut, 0.02));
}

/// Each input meets one weight, and one output two.
Module transposed(bool is_function) {
  const at::Tensor weight = torch::tensor({0.5, 0.0, 0.5, 0.0}).reshape({2, 2, 1, 1}).to(at::kFloat);
  Module model = testing::user_module("Transposed");
  if (is_function) {
    model.register_parameter("weight", weight, false);
    model.define("def forward(self, x):\n  return torch.conv_transpose2d(x, self.weight)\n");
  } else {
    Module layer = testing::conv_transpose2d(2, 2, 1);
    layer.attr("weight").toTensor().copy_(weight);
    model.register_module("fc", layer);
    model.define("def forward(self, x):\n  return self.fc.forward(x)\n");
  }
  return model;
}

TEST(BoundPairSums, TheOutputsOfTransposedConvolutionsAreBound) {
  for (const bool is_function : {false, true}) {
    auto [model, context] = reference_of(transposed(is_function), torch::rand({1, 2, 4, 4}));
    context.target = {.engine = "x86", .cpu = TargetCpu::WithoutVnni};
    EXPECT_TRUE(passes::bound_pair_sums(model, context)) << is_function;
    EXPECT_FALSE(passes::bound_pair_sums(model, context)) << is_function << ": they are bound already";
    if (!is_function) {
      EXPECT_LE(largest_code(model), 64);
    }
  }
}

TEST(ReportPairSums, SaysWhetherSumsCanOverflow) {
  auto [model, context] = even_reference("x86");
  EXPECT_TRUE(passes::report_pair_sums(model, context));
  ASSERT_FALSE(notes(model).empty());
  EXPECT_NE(notes(model).back().find("can overflow"), std::string::npos);
}

TEST(ReportPairSums, SaysNothingOfKernelsThatAddIn32Bits) {
  auto [model, context] = even_reference("qnnpack");
  const std::vector<std::string> before = notes(model);
  EXPECT_FALSE(passes::report_pair_sums(model, context));
  EXPECT_EQ(notes(model), before);
}

Module one_linear() {
  torch::manual_seed(73);
  Module model = testing::user_module("One");
  model.register_module("fc", testing::linear(8, 4));
  model.define("def forward(self, x):\n  return self.fc.forward(x)\n");
  return model;
}

TEST(CorrectBiases, ABiasTakesBackWhatTheRoundedWeightAddsToTheMean) {
  auto [model, context] = reference_of(one_linear(), torch::randn({16, 8}));
  ir::Weighted& fc = testing::layer(model, "fc");
  const at::Tensor mean = torch::rand({8}, at::kDouble) + 1;
  fc.seen.input.mean = mean;
  const auto mean_output = [&](const at::Tensor& weight, const at::Tensor& bias) {
    return at::linear(mean, weight.detach().to(at::kDouble), bias.detach().to(at::kDouble));
  };
  const at::Tensor wanted = mean_output(fc.weight, fc.bias);
  const at::Tensor rounded = kernels::quantized_weight(fc).dequantize();
  ASSERT_FALSE(at::allclose(mean_output(rounded, fc.bias), wanted, 1e-5, 1e-6));
  EXPECT_TRUE(passes::correct_biases(model, context));
  EXPECT_TRUE(at::allclose(mean_output(rounded, fc.bias), wanted, 1e-5, 1e-6));
  EXPECT_FALSE(passes::correct_biases(model, context)) << "once is enough";
}

TEST(CorrectBiases, WithoutMeansABiasStays) {
  auto [model, context] = reference_of(one_linear(), torch::randn({16, 8}));
  const at::Tensor before = testing::layer(model, "fc").bias;
  EXPECT_FALSE(passes::correct_biases(model, context));
  EXPECT_TRUE(testing::layer(model, "fc").bias.is_same(before));
}

/// The weights of the two calls of one layer.
std::vector<ir::Weighted*> called_twice(ir::Model& model) {
  std::vector<ir::Weighted*> calls;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_module_call(node)) calls.push_back(ir::weighted_of(ir::call_of(model, node)));
  }
  return calls;
}

testing::CalibratedModel twice() {
  torch::manual_seed(74);
  Module model = testing::user_module("Twice");
  model.register_module("fc", testing::linear(8, 8));
  model.define("def forward(self, x):\n  return self.fc.forward(torch.relu(self.fc.forward(x)))\n");
  return reference_of(model, torch::randn({16, 8}));
}

TEST(ShareParameters, EqualOnesOfOneLayerBecomeOne) {
  auto [model, context] = twice();
  const auto calls = called_twice(model);
  ASSERT_EQ(calls.size(), 2);
  calls[1]->weight = calls[0]->weight.detach().clone();
  calls[1]->bias = calls[0]->bias.detach().clone();
  EXPECT_TRUE(passes::share_parameters(model, context));
  EXPECT_TRUE(calls[1]->weight.is_same(calls[0]->weight));
  EXPECT_TRUE(calls[1]->bias.is_same(calls[0]->bias));
  EXPECT_FALSE(passes::share_parameters(model, context)) << "they are one already";
}

TEST(ShareParameters, EqualOnesOfOneTensorOfTheFileBecomeOne) {
  auto [model, context] = twice();
  const auto calls = called_twice(model);
  ASSERT_EQ(calls.size(), 2);
  calls[1]->weight = calls[0]->weight.detach().clone();
  for (ir::ModuleCall& call : model.calls) {
    if (ir::weighted_of(call) == calls[1]) call.path = "other";
  }
  EXPECT_TRUE(passes::share_parameters(model, context));
  EXPECT_TRUE(calls[1]->weight.is_same(calls[0]->weight));
  calls[1]->weight = calls[0]->weight.detach().clone();
  calls[1]->origin = calls[1]->weight;
  EXPECT_FALSE(passes::share_parameters(model, context)) << "equal by chance";
}

TEST(ShareParameters, UnlikeOnesStay) {
  auto [model, context] = twice();
  const auto calls = called_twice(model);
  ASSERT_EQ(calls.size(), 2);
  calls[1]->weight = calls[0]->weight.detach() * 2;
  calls[1]->bias = calls[0]->bias.detach() * 2;
  EXPECT_FALSE(passes::share_parameters(model, context));
  EXPECT_FALSE(calls[1]->weight.is_same(calls[0]->weight));
}

/// A linear layer whose first channel has weights of 1e-9 and a bias of 5.
testing::CalibratedModel tiny_reference(const std::string& engine) {
  torch::manual_seed(73);
  Module linear = testing::linear(8, 4);
  linear.attr("weight").toTensor()[0].mul_(1e-9);
  linear.attr("bias").toTensor()[0] = 5;
  Module model = testing::user_module("Tiny");
  model.register_module("fc", linear);
  model.define("def forward(self, x):\n  return self.fc.forward(x)\n");
  testing::CalibratedModel result = reference_of(model, torch::rand({4, 8}));
  result.context.target.engine = engine;
  return result;
}

TEST(BoundBiases, ScalesGrowUntilABiasFitsIntoHalfOf32Bits) {
  auto [model, context] = tiny_reference("qnnpack");
  const at::Tensor before = testing::layer(model, "fc").weight_qparams->scale.clone();
  EXPECT_TRUE(passes::bound_biases(model, context));
  const ir::Weighted& fc = testing::layer(model, "fc");
  const at::Tensor grown = fc.weight_qparams->scale.ne(before);
  EXPECT_EQ(grown.sum().item<int64_t>(), 1);
  EXPECT_TRUE(grown[0].item<bool>());
  const double input_scale = 1.0 / 127;  // of torch::rand in 7 bits, about
  EXPECT_LT(5 / (fc.weight_qparams->scale[0].item<double>() * input_scale), 1.2 * (1 << 30));
  EXPECT_TRUE(notes(model).back().starts_with("the weights of 1 of 4 channels have larger scales"));
  EXPECT_FALSE(passes::bound_biases(model, context)) << "they are bound already";
}

TEST(BoundBiases, KernelsThatAddFloatsKeepTheirScales) {
  auto [model, context] = tiny_reference("x86");
  EXPECT_FALSE(passes::bound_biases(model, context));
}

}  // namespace weights_test
}  // namespace tsq
