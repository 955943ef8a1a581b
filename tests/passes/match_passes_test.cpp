// Passes of the room match one by one, on models as prepare has them there.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/quantize.h>

#include "ir/methods.h"
#include "passes/match/passes.h"
#include "support/before_pass.h"
#include "support/model_before.h"
#include "support/small_models.h"

namespace tsq {
namespace match_passes_test {

using testing::call_node;
using testing::model_before;
using testing::node_of_kind;
using torch::jit::Module;

/// `methods` may use the convolutions a (3 to 8 channels) and b (8 to 4).
Module two_convolutions(const std::string& methods) {
  torch::manual_seed(1);
  Module model = testing::user_module("Two");
  model.register_module("a", testing::conv2d(3, 8, 3));
  model.register_module("b", testing::conv2d(8, 4, 1));
  model.define(methods);
  model.eval();
  return model;
}

/// For recipe best.
passes::PassContext context_of(const std::string& forward) {
  return testing::recipe_context(two_convolutions("def forward(self, x):\n" + forward));
}

const ir::Match& match_of(const ir::Model& model, const ir::Node* node) {
  return model.matches.at(ir::record_of(model, node)->match.value());
}

constexpr const char* kForward = "def forward(self, x):\n  return self.b.forward(self.a.forward(x))\n";

TEST(JoinMethods, AMethodThatCallsLayersComesIntoTheGraph) {
  const passes::PassContext context = testing::recipe_context(
      two_convolutions(std::string(kForward) + "def encode(self, x):\n  return self.a.forward(x)\n"));
  ir::Model model = model_before(context, "join_methods");
  const std::size_t calls = testing::count(model, "prim::tsq_module");
  EXPECT_TRUE(passes::join_methods(model, context));
  ASSERT_NE(ir::methods_node(model), nullptr);
  EXPECT_EQ(ir::methods_node(model)->blocks().size(), 1U);
  EXPECT_EQ(testing::count(model, "prim::tsq_module"), calls + 1);
}

TEST(JoinMethods, OneThatCallsNoneStaysOutside) {
  const passes::PassContext context = testing::recipe_context(
      two_convolutions(std::string(kForward) + "def scaled(self, x):\n  return x * 2\n"));
  ir::Model model = model_before(context, "join_methods");
  EXPECT_FALSE(passes::join_methods(model, context));
  EXPECT_EQ(ir::methods_node(model), nullptr);
}

TEST(CheckQuantizedIndexes, RefusesAnInputThatForwardHasNot) {
  passes::PassContext context = testing::recipe_context(two_convolutions(kForward));
  ir::Model model = model_before(context, "check_quantized_indexes");
  context.custom.set_input_quantized_indexes({0});
  EXPECT_FALSE(passes::check_quantized_indexes(model, context));
  context.custom.set_input_quantized_indexes({1});
  EXPECT_THROW(passes::check_quantized_indexes(model, context), Error);
}

TEST(FindUnmatchedEntries, AModuleThatIsNotThereIsOne) {
  passes::PassContext context = testing::recipe_context(two_convolutions(kForward));
  context.mapping.set_module_name("c", std::nullopt);
  ir::Model model = model_before(context, "find_unmatched_entries");
  EXPECT_TRUE(passes::find_unmatched_entries(model, context));
  EXPECT_EQ(model.unmatched_entries.size(), 1U);
}

TEST(FindUnmatchedEntries, AModuleThatIsThereIsNone) {
  passes::PassContext context = testing::recipe_context(two_convolutions(kForward));
  context.mapping = QConfigMapping().set_module_name("a", default_qconfig("x86"));
  ir::Model model = model_before(context, "find_unmatched_entries");
  EXPECT_FALSE(passes::find_unmatched_entries(model, context));
  EXPECT_TRUE(model.unmatched_entries.empty());
}

TEST(FindUnmatchedEntries, ACustomClassThatNoModuleHasIsOne) {
  passes::PassContext context = testing::recipe_context(two_convolutions(kForward));
  context.custom.set_non_traceable_module_names({"a", "aa"})
      .set_float_to_observed_mapping(symbol("torch.nn.Conv2d"), {symbol("mine.Observed")})
      .set_float_to_observed_mapping(symbol("mine.Layer"), {symbol("mine.Observed")});
  ir::Model model = model_before(context, "find_unmatched_entries");
  EXPECT_TRUE(passes::find_unmatched_entries(model, context));
  std::vector<std::string> entries;
  for (const UnmatchedEntry& each : model.unmatched_entries) entries.push_back(each.entry);
  EXPECT_EQ(entries, (std::vector<std::string>{"aa", "mine.Layer"}));
}

TEST(AbsorbClamps, AClampJoinsTheMatchOfTheConvolutionInFrontOfIt) {
  const passes::PassContext context =
      context_of("  return self.b.forward(torch.hardtanh(self.a.forward(x), 0, 0.5))\n");
  ir::Model model = model_before(context, "absorb_clamps");
  ir::Node* clamp = node_of_kind(model, "aten::hardtanh");
  EXPECT_TRUE(passes::absorb_clamps(model, context));
  const ir::Match& match = match_of(model, call_node(model, "a"));
  EXPECT_EQ(&match, &match_of(model, clamp));
  EXPECT_EQ(match.last, clamp);
  EXPECT_EQ(match.root, call_node(model, "a"));
}

TEST(AbsorbClamps, AClampOfWhatOthersReadStaysByItself) {
  const passes::PassContext context = context_of(
      "  y = self.a.forward(x)\n  return self.b.forward(torch.hardtanh(y, 0, 0.5)) + self.b.forward(y)\n");
  ir::Model model = model_before(context, "absorb_clamps");
  EXPECT_FALSE(passes::absorb_clamps(model, context));
  EXPECT_EQ(match_of(model, call_node(model, "a")).last, call_node(model, "a"));
}

TEST(FindIslands, ASumOfFloatValuesIsNotObserved) {
  const passes::PassContext context =
      context_of("  y = torch.erf(self.a.forward(x))\n  return self.b.forward(torch.erf(y + x.mean()))\n");
  ir::Model model = model_before(context, "find_islands");
  EXPECT_TRUE(passes::find_islands(model, context));
  const ir::NodeRecord& record = *ir::record_of(model, node_of_kind(model, "aten::add"));
  EXPECT_EQ(record.placement, ir::Placement::Undecided);
  EXPECT_EQ(record.reason, ir::Reason::Island);
  EXPECT_FALSE(record.match.has_value());
  EXPECT_FALSE(record.lookup.qconfig.has_value());
  EXPECT_TRUE(record.unobserved_qconfig.has_value());
  EXPECT_TRUE(ir::record_of(model, call_node(model, "a"))->match.has_value());
}

TEST(FindIslands, ASumOfConvolutionsIsObserved) {
  const passes::PassContext context =
      context_of("  return self.b.forward(self.a.forward(x) + self.a.forward(x))\n");
  ir::Model model = model_before(context, "find_islands");
  EXPECT_FALSE(passes::find_islands(model, context));
  EXPECT_TRUE(ir::record_of(model, node_of_kind(model, "aten::add"))->match.has_value());
}

TEST(LeaveFloatOperators, ALayerWhosePowerGoesToALogarithmStaysFloat) {
  const passes::PassContext context = context_of(
      "  y = torch.clamp(self.a.forward(x).abs() ** 2, min=1e-6)\n"
      "  return self.b.forward(torch.log(y.permute(0, 1, 3, 2)))\n");
  ir::Model model = model_before(context, "leave_float_operators");
  EXPECT_TRUE(passes::leave_float_operators(model, context));
  EXPECT_EQ(ir::record_of(model, call_node(model, "a"))->reason, ir::Reason::Amplified);
  EXPECT_TRUE(ir::record_of(model, call_node(model, "b"))->match.has_value());
}

TEST(LeaveFloatOperators, ALayerOfWhichTheExponentialGoesToALogarithmDoesNot) {
  const passes::PassContext context =
      context_of("  return self.b.forward(torch.log(torch.exp(self.a.forward(x)) + 1))\n");
  ir::Model model = model_before(context, "leave_float_operators");
  passes::leave_float_operators(model, context);
  EXPECT_TRUE(ir::record_of(model, call_node(model, "a"))->match.has_value());
}

TEST(LeaveFloatOperators, AnAverageOfWholeMapsStaysFloat) {
  const passes::PassContext context =
      context_of("  y = self.a.forward(x)\n  return self.b.forward(y * torch.mean(y, [2, 3], True))\n");
  ir::Model model = model_before(context, "leave_float_operators");
  EXPECT_TRUE(passes::leave_float_operators(model, context));
  EXPECT_EQ(ir::record_of(model, node_of_kind(model, "aten::mean"))->reason, ir::Reason::WholeAverage);
  EXPECT_TRUE(ir::record_of(model, node_of_kind(model, "aten::mul"))->match.has_value());
}

TEST(FindIslands, AProductWithANumberAfterABranchThatReturnsFloatIsNotObserved) {
  const auto is_matched = [](const std::string& other_branch) {
    const passes::PassContext context =
        context_of("  y = self.a.forward(x)\n  if bool(torch.sum(x) > 0):\n    z = " + other_branch +
                   "\n  else:\n    z = y\n  return torch.erf(z * 0.5)\n");
    ir::Model model = model_before(context, "find_islands");
    passes::find_islands(model, context);
    return ir::record_of(model, node_of_kind(model, "aten::mul"))->match.has_value();
  };
  EXPECT_FALSE(is_matched("torch.erf(y)"));
  EXPECT_TRUE(is_matched("self.b.forward(y)"));
}

TEST(SeparateConcatenations, OneOfAValueThatOthersReadHasARangeOfItsOwn) {
  const passes::PassContext context = context_of(
      "  y = self.a.forward(x)\n  return self.b.forward(torch.cat([y, y * 2])), self.b.forward(y)\n");
  ir::Model model = model_before(context, "separate_concatenations");
  const ir::Match& match = match_of(model, node_of_kind(model, "aten::cat"));
  EXPECT_TRUE(match.shares_observer);
  EXPECT_TRUE(passes::separate_concatenations(model, context));
  EXPECT_FALSE(match.shares_observer);
}

TEST(SeparateConcatenations, OneOfValuesThatItAloneReadsSharesTheirs) {
  const passes::PassContext context =
      context_of("  return self.b.forward(torch.cat([self.a.forward(x), self.a.forward(x * 2)]))\n");
  ir::Model model = model_before(context, "separate_concatenations");
  EXPECT_FALSE(passes::separate_concatenations(model, context));
  EXPECT_TRUE(match_of(model, node_of_kind(model, "aten::cat")).shares_observer);
}

TEST(SeparateScalarArithmetic, ASumWithANumberHasARangeOfItsOwn) {
  const passes::PassContext context =
      context_of("  return self.b.forward(torch.max_pool2d(self.a.forward(x), [1, 1]) + 3)\n");
  ir::Model model = model_before(context, "separate_scalar_arithmetic");
  const ir::Match& sum = match_of(model, node_of_kind(model, "aten::add"));
  EXPECT_TRUE(sum.shares_observer);
  EXPECT_TRUE(passes::separate_scalar_arithmetic(model, context));
  EXPECT_FALSE(sum.shares_observer);
  EXPECT_TRUE(match_of(model, node_of_kind(model, "aten::max_pool2d")).shares_observer);
}

TEST(SeparateScalarArithmetic, ASumOfTensorsHasOneAlready) {
  const passes::PassContext context =
      context_of("  y = torch.max_pool2d(self.a.forward(x), [1, 1])\n  return self.b.forward(y + y)\n");
  ir::Model model = model_before(context, "separate_scalar_arithmetic");
  EXPECT_FALSE(passes::separate_scalar_arithmetic(model, context));
  EXPECT_TRUE(match_of(model, node_of_kind(model, "aten::max_pool2d")).shares_observer);
}

}  // namespace match_passes_test
}  // namespace tsq
