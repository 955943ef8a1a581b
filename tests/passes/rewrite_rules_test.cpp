// Every row of the tables of written-out operators, with random tensors.

#include "passes/rewrite/rewrite_rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>

#include <span>
#include <string>
#include <vector>

#include "support/pass_model.h"
#include "support/small_models.h"
#include "torchscript/emit.h"

namespace tsq {
namespace rewrite_rules_test {

using passes::RewriteRule;
using passes::expressions::Expression;
using torch::jit::Module;
using torch::jit::testing::FileCheck;
using Kind = Expression::Kind;

constexpr int64_t kColumns = 16;

std::string source_of(const Expression& expression);

std::string operand(const Expression& expression, std::size_t index) {
  return source_of(expression.operands.at(index));
}

/// The second operand of two: an expression or a number.
std::string second(const Expression& expression) {
  return expression.numbers.empty() ? operand(expression, 1)
                                    : fmt::format("{:.17g}", expression.numbers.front());
}

std::string product_of_all(const Expression& expression) {
  std::string source = fmt::format("({:.17g}", expression.numbers.front());
  for (const Expression& factor : expression.operands) source += " * " + source_of(factor);
  return source + ")";
}

/// An expression of h as exporters write it.
std::string source_of(const Expression& expression) {
  switch (expression.kind) {
    case Kind::X:
      return "h";
    case Kind::Number:
      return "1e-5";
    case Kind::Vector:
      return fmt::format("self.{}", expression.name);
    case Kind::Sum:
      return fmt::format("({} + {})", operand(expression, 0), second(expression));
    case Kind::Difference:
      return fmt::format("({} - {})", operand(expression, 0), second(expression));
    case Kind::Product:
      return fmt::format("({} * {})", operand(expression, 0), second(expression));
    case Kind::Quotient:
      return fmt::format("({} / {})", operand(expression, 0), second(expression));
    case Kind::Factors:
      return product_of_all(expression);
    case Kind::Sigmoid:
      return fmt::format("torch.sigmoid({})", operand(expression, 0));
    case Kind::Clamp:
      return fmt::format("torch.clamp({}, {:.17g}, {:.17g})", operand(expression, 0),
                         expression.numbers.front(), expression.numbers.back());
    case Kind::Erf:
      return fmt::format("torch.erf({})", operand(expression, 0));
    case Kind::Sqrt:
      return fmt::format("torch.sqrt({})", operand(expression, 0));
    case Kind::Square:
      return fmt::format("torch.pow({}, 2)", operand(expression, 0));
    case Kind::RowMean:
      return fmt::format("torch.mean({}, [-1], True)", operand(expression, 0));
  }
  return {};
}

/// A linear layer, and `result` of its output h and its input x.
Module after_layer(const std::string& result) {
  Module model = testing::user_module("WrittenOut");
  model.register_module("front", testing::linear(kColumns, kColumns));
  model.register_parameter("weight", torch::rand({kColumns}) + 0.5, /*is_buffer=*/false);
  model.register_parameter("bias", torch::randn({kColumns}), /*is_buffer=*/false);
  model.define("def forward(self, x):\n  h = self.front.forward(x)\n  return " + result + "\n");
  return model;
}

std::vector<RewriteRule> all_rules() {
  std::vector<RewriteRule> rules;
  for (const auto& some : {passes::activation_rules(), passes::layer_norm_rules()})
    rules.insert(rules.end(), some.begin(), some.end());
  return rules;
}

class RewriteRules : public ::testing::TestWithParam<RewriteRule> {
 protected:
  static bool applies(ir::Model& model) { return passes::apply_rules(model, std::span(&GetParam(), 1)); }
};

INSTANTIATE_TEST_SUITE_P(Rows, RewriteRules, ::testing::ValuesIn(all_rules()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(RewriteRules, BothSidesAreEqual) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(7);
  for (const double scale : {0.1, 1.0, 4.0}) {
    Module model = after_layer(source_of(GetParam().pattern));
    ir::Model rewritten = testing::normalised(model);
    ASSERT_TRUE(applies(rewritten)) << source_of(GetParam().pattern);
    FileCheck().check_count(GetParam().replacement, 1, /*exactly=*/true)->run(*rewritten.graph);
    const at::Tensor x = torch::randn({8, kColumns}) * scale;
    const at::Tensor wanted = model.forward({x}).toTensor();
    const at::Tensor got = torchscript::emit(rewritten).forward({x}).toTensor();
    EXPECT_LE((got - wanted).abs().max().item<double>(), 1e-5 * wanted.abs().max().item<double>());
  }
}

TEST_P(RewriteRules, NothingOfThePatternIsLeft) {
  ir::Model rewritten = testing::normalised(after_layer(source_of(GetParam().pattern)));
  ASSERT_TRUE(applies(rewritten));
  for (const char* part : {"aten::mul", "aten::add", "aten::sub", "aten::div", "aten::mean", "aten::erf"})
    FileCheck().check_not(part)->run(*rewritten.graph);
}

TEST_P(RewriteRules, AnotherExpressionStaysAsItIs) {
  Expression other = GetParam().pattern;
  other.operands.front() = sigmoid(sigmoid(other.operands.front()));
  ir::Model model = testing::normalised(after_layer(source_of(other)));
  EXPECT_FALSE(applies(model)) << source_of(other);
  FileCheck().check_not(GetParam().replacement)->run(*model.graph);
}

TEST(RewriteRule, AnActivationOfNoLayerStaysAsItIs) {
  ir::Model model = testing::normalised(after_layer("h + x * torch.sigmoid(x)"));
  EXPECT_FALSE(passes::apply_rules(model, passes::activation_rules()));
  FileCheck().check_not("aten::silu")->run(*model.graph);
}

TEST(RewriteRule, WhatOthersReadStaysAsItIs) {
  ir::Model model = testing::normalised(after_layer("[h * torch.sigmoid(h), torch.sigmoid(h)]"));
  EXPECT_TRUE(passes::apply_rules(model, passes::activation_rules())) << "each has a sigmoid of its own";
  Module shared = testing::user_module("Shared");
  shared.register_module("front", testing::linear(kColumns, kColumns));
  shared.define(
      "def forward(self, x):\n  h = self.front.forward(x)\n  gate = torch.sigmoid(h)\n  return h * gate, "
      "gate\n");
  ir::Model of_shared = testing::normalised(shared);
  EXPECT_FALSE(passes::apply_rules(of_shared, passes::activation_rules()));
}

}  // namespace rewrite_rules_test
}  // namespace tsq
