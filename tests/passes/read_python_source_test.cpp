// What a trace has one operator for is told apart by the line of the Python file that it was traced from.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "ir/analysis.h"
#include "ir/number_first.h"
#include "ir/origin.h"
#include "ir/python_source.h"
#include "passes/plain/passes.h"
#include "support/graph_model.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace read_python_source_test {

using Names = std::vector<std::string>;

/// A Python file beside a trace of it.
class ReadPythonSource : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.file("model.py"); }

  void write(const std::string& text) const { std::ofstream(path()) << text; }

  /// The values %a, %b … of operators, as if each had been traced in the line that it is given.
  ir::Model traced(const std::string& operators, const std::vector<int>& lines,
                   const std::string& function = "forward") const {
    ir::Model model = testing::model_of_graph("%x : Tensor, %y : Tensor", operators);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string stack =
          path() + "(" + std::to_string(lines[i]) + "): " + function + "\nmain.py(9): <module>\n";
      const auto source = std::make_shared<torch::jit::Source>(stack, path(), lines[i]);
      testing::node_named(model, std::string(1, static_cast<char>('a' + i)))
          ->setSourceRange(torch::jit::SourceRange(source, 0, stack.size()));
    }
    return model;
  }

  /// How FX would name the operator of a value, all that it may be.
  static Names spellings(const ir::Model& model, const std::string& value) {
    Names names;
    for (const Symbol& each : ir::targets(model, testing::node_named(model, value)))
      names.emplace_back(each.name);
    return names;
  }

 private:
  testing::TemporaryFolder folder_{};
};

constexpr const char* kTwoSums = R"(
  %a : Tensor = aten::add(%x, %y, %one)
  %b : Tensor = aten::add(%a, %one, %one)
  return (%b)
)";

TEST_F(ReadPythonSource, ALineTellsFunctionsOperatorsAndMethodsApart) {
  write("import torch\n\ndef forward(self, x, y):\n    z = torch.add(x, y) + 1.0\n    return z.relu()\n");
  ir::Model model = traced(R"(
  %a : Tensor = aten::add(%x, %y, %one)
  %b : Tensor = aten::add(%a, %one, %one)
  %c : Tensor = aten::relu(%b)
  return (%c)
)",
                           {4, 4, 5});
  EXPECT_GT(spellings(model, "a").size(), 2U) << "a trace by itself";
  EXPECT_TRUE(passes::read_python_source(model, {}));
  EXPECT_EQ(spellings(model, "a"), Names{"torch.add"});
  EXPECT_EQ(spellings(model, "b"), Names{"operator.add"});
  EXPECT_EQ(spellings(model, "c"), Names{"relu"});
  EXPECT_EQ(model.python_files, std::set<std::string>{path()});
}

TEST_F(ReadPythonSource, AFunctionIsNoMethodByWhateverNameItsModuleIsCalled) {
  write(R"(import torch as th, torch.nn.functional as fn
def forward(self, x, y):
    a = th.add(x, y)
    b = th.flatten(x, 1)
    c = x.flatten(1)
    d = th.relu(x)
    e = fn.gelu(x)
    f = x.add_(y)
    g = x.view(2, 3)
    h = self.add(x, y, alpha=1)
    i = fn.avg_pool2d(x, 2)
)");
  ir::Model model = traced(R"(
  %last : int = prim::Constant[value=-1]()
  %exact : str = prim::Constant[value="none"]()
  %sizes : int[] = prim::Constant[value=[2, 3]]()
  %kernel : int[] = prim::Constant[value=[2, 2]]()
  %empty : int[] = prim::ListConstruct()
  %padding : int[] = prim::Constant[value=[0, 0]]()
  %a : Tensor = aten::add(%x, %y, %one)
  %b : Tensor = aten::flatten(%x, %one, %last)
  %c : Tensor = aten::flatten(%x, %one, %last)
  %d : Tensor = aten::relu(%x)
  %e : Tensor = aten::gelu(%x, %exact)
  %f : Tensor = aten::add(%x, %y, %one)
  %g : Tensor = aten::view(%x, %sizes)
  %h : Tensor = aten::add(%x, %y, %one)
  %i : Tensor = aten::avg_pool2d(%x, %kernel, %empty, %padding, %no, %yes, %none)
  %all : Tensor[] = prim::ListConstruct(%a, %b, %c, %d, %e, %f, %g, %h, %i)
  return (%all)
)",
                           {3, 4, 5, 6, 7, 8, 9, 10, 11});
  ASSERT_TRUE(passes::read_python_source(model, {}));
  std::vector<Names> found;
  for (const char* value : {"a", "b", "c", "d", "e", "f", "g", "h", "i"})
    found.push_back(spellings(model, value));
  const std::vector<Names> expected{{"torch.add"},
                                    {"torch.flatten"},
                                    {"flatten"},
                                    {"torch.relu"},
                                    {"torch.nn.functional.gelu"},
                                    {"add_"},
                                    {"view"},
                                    {"torch.add"},
                                    {"torch.nn.functional.avg_pool2d"}};
  EXPECT_EQ(found, expected);
}

TEST_F(ReadPythonSource, ArgumentsByPositionAreThoseOfTheLine) {
  write("def forward(self, x, y):\n    return torch.add(x, other=y)\n");
  ir::Model model = traced("  %a : Tensor = aten::add(%x, %y, %one)\n  return (%a)\n", {2});
  ASSERT_TRUE(passes::read_python_source(model, {}));
  EXPECT_EQ(ir::positional_arguments(testing::node_named(model, "a"), symbol("torch.add")), 1U);
}

TEST_F(ReadPythonSource, AStatementOfSeveralLinesIsReadAsAWhole) {
  write(
      "def forward(self, x, y):\n    z = (\n        torch.add(x,\n                  y)\n        + 1.0\n    "
      ")\n");
  ir::Model model = traced(kTwoSums, {3, 3});
  ASSERT_TRUE(passes::read_python_source(model, {}));
  EXPECT_EQ(spellings(model, "a"), Names{"torch.add"});
  EXPECT_EQ(spellings(model, "b"), Names{"operator.add"});
}

TEST_F(ReadPythonSource, ALoopRunsItsLineAgain) {
  write("def forward(self, x, y):\n    for i in range(2):\n        x = torch.add(x, y) + 1.0\n");
  ir::Model model = traced(R"(
  %a : Tensor = aten::add(%x, %y, %one)
  %b : Tensor = aten::add(%a, %one, %one)
  %c : Tensor = aten::add(%b, %y, %one)
  %d : Tensor = aten::add(%c, %one, %one)
  return (%d)
)",
                           {3, 3, 3, 3});
  ASSERT_TRUE(passes::read_python_source(model, {}));
  EXPECT_EQ(spellings(model, "c"), Names{"torch.add"});
  EXPECT_EQ(spellings(model, "d"), Names{"operator.add"});
}

TEST_F(ReadPythonSource, ALineThatMayNotHaveRunWholeTellsNothing) {
  write("def forward(self, x, y):\n    return torch.add(x, y) if self.a else (x + y) + x.add(y)\n");
  ir::Model model = traced(kTwoSums, {2, 2});
  EXPECT_FALSE(passes::read_python_source(model, {}));
}

TEST_F(ReadPythonSource, AWordBesideOneThatWasTracedIsNotTakenForIt) {
  write("def forward(self, x, y):\n    return torch.add(x[:, i + 1:], y)\n");
  ir::Model model = traced("  %a : Tensor = aten::add(%x, %y, %one)\n  return (%a)\n", {2});
  EXPECT_FALSE(passes::read_python_source(model, {}));
}

TEST_F(ReadPythonSource, ASignBeforeAValueIsToldFromOneBetweenTwo) {
  write("def forward(self, x, y):\n    return -x + torch.neg(y) - y\n");
  ir::Model model = traced(R"(
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%y)
  %c : Tensor = aten::add(%a, %b, %one)
  %d : Tensor = aten::sub(%c, %y, %one)
  return (%d)
)",
                           {2, 2, 2, 2});
  ASSERT_TRUE(passes::read_python_source(model, {}));
  EXPECT_EQ(spellings(model, "a"), Names{"operator.neg"});
  EXPECT_EQ(spellings(model, "b"), Names{"torch.neg"});
  EXPECT_EQ(spellings(model, "d"), Names{"operator.sub"});
}

TEST_F(ReadPythonSource, OtherNamesOfAnOperatorAreTheNamesThatFxSees) {
  write("def forward(self, x, y):\n    return torch.concat([x, y]) + x.multiply(y)\n");
  ir::Model model = traced(R"(
  %both : Tensor[] = prim::ListConstruct(%x, %y)
  %a : Tensor = aten::cat(%both, %one)
  %b : Tensor = aten::mul(%x, %y)
  %c : Tensor = aten::add(%a, %b, %one)
  return (%c)
)",
                           {2, 2, 2});
  ASSERT_TRUE(passes::read_python_source(model, {}));
  EXPECT_EQ(spellings(model, "a"), Names{"torch.concat"});
  EXPECT_EQ(spellings(model, "b"), Names{"multiply"});
}

TEST_F(ReadPythonSource, WhatIsOfNumbersAloneIsNoOperator) {
  write("def forward(self, x, y):\n    return torch.add(x[:, 0 + 1:], y)\n");
  ir::Model model = traced("  %a : Tensor = aten::add(%x, %y, %one)\n  return (%a)\n", {2});
  EXPECT_TRUE(passes::read_python_source(model, {}));
  EXPECT_EQ(spellings(model, "a"), Names{"torch.add"});
}

TEST_F(ReadPythonSource, TheNumberThatIsFirstIsToldFromTheOneThatIsSecond) {
  write("def forward(self, x, y):\n    return 2 * (x * 3.0)\n");
  ir::Model model = traced(R"(
  %two : int = prim::Constant[value=2]()
  %three : float = prim::Constant[value=3.]()
  %a : Tensor = aten::mul(%x, %three)
  %b : Tensor = aten::mul(%a, %two)
  return (%b)
)",
                           {2, 2});
  ASSERT_TRUE(passes::read_python_source(model, {}));
  const auto first_is_tensor = [&](const std::string& value) {
    return ir::holds_tensor(ir::arguments_as_written(testing::node_named(model, value)).front().value);
  };
  EXPECT_TRUE(first_is_tensor("a"));
  EXPECT_FALSE(first_is_tensor("b"));
}

TEST_F(ReadPythonSource, ANumberThatIsDividedByATensorNeedsNoFile) {
  ir::Model model = testing::model_of_graph("%x : Tensor, %y : Tensor", R"(
  %two : float = prim::Constant[value=2.]()
  %a : Tensor = aten::reciprocal(%x)
  %b : Tensor = aten::mul(%a, %two)
  return (%b)
)");
  const std::string stack = "torch/_tensor.py(1112): __rdiv__\nmodel.py(2): forward\n";
  for (const char* const name : {"a", "b"}) {
    const auto source = std::make_shared<torch::jit::Source>(stack, "torch/_tensor.py", 1112);
    testing::node_named(model, name)->setSourceRange(torch::jit::SourceRange(source, 0, stack.size()));
  }
  EXPECT_EQ(spellings(model, "a"), Names{});
  EXPECT_EQ(spellings(model, "b"), Names{"operator.truediv"});
  model.any_spelling = true;
  EXPECT_EQ(spellings(model, "b"), Names{"operator.truediv"}) << "it is no product in recipe best either";
  const auto arguments = ir::arguments_as_written(testing::node_named(model, "b"));
  EXPECT_EQ(arguments[0].value->debugName(), "two");
  EXPECT_EQ(arguments[1].value->debugName(), "x");
}

TEST_F(ReadPythonSource, OperatorsAreToldAlsoWhereItIsOpenWhichHasItsNumberFirst) {
  write("def forward(self, x, y):\n    return sum(x * 3.0 for i in range(2)) + y * 2.0 + 0.5 * y\n");
  ir::Model model = traced(R"(
  %a : Tensor = aten::mul(%x, %one)
  %b : Tensor = aten::mul(%x, %one)
  %c : Tensor = aten::mul(%y, %one)
  %d : Tensor = aten::mul(%y, %one)
  %all : Tensor[] = prim::ListConstruct(%a, %b, %c, %d)
  return (%all)
)",
                           {2, 2, 2, 2});
  ASSERT_TRUE(passes::read_python_source(model, {}));
  EXPECT_EQ(spellings(model, "d"), Names{"operator.mul"});
}

TEST_F(ReadPythonSource, AFileThatIsMissingChangesNothing) {
  ir::Model model = traced(kTwoSums, {4, 4});
  const Names before = spellings(model, "a");
  EXPECT_FALSE(passes::read_python_source(model, {}));
  EXPECT_EQ(spellings(model, "a"), before);
}

TEST_F(ReadPythonSource, AFileThatHasChangedSinceChangesNothing) {
  write("import torch\n\n\n\ndef forward(self, x, y):\n    return torch.add(x, y)\n");
  for (const int line : {4, 5, 7, 100}) {
    ir::Model model = traced(kTwoSums, {line, line});
    EXPECT_FALSE(passes::read_python_source(model, {})) << line;
  }
  ir::Model of_another_function = traced(kTwoSums, {6, 6}, "encode");
  EXPECT_FALSE(passes::read_python_source(of_another_function, {}));
}

TEST_F(ReadPythonSource, TextThatIsNoPythonChangesNothing) {
  write("def forward(self, x, y):\n    return torch.add(x, ?y\n");
  ir::Model model = traced(kTwoSums, {2, 2});
  EXPECT_FALSE(passes::read_python_source(model, {}));
}

TEST(PythonStatements, EachHasItsFunctionAndItsLines) {
  const auto statements = ir::python_statements(
      "class A:\n    def forward(self, x):\n        # a comment\n        def inner(y):\n            return "
      "y\n\n"
      "        x = f(\n            x)\n        \"\"\"text\n        of lines\"\"\"\n    c = 1\n");
  std::vector<std::string> found;
  for (const ir::PythonStatement& each : statements) {
    found.push_back(each.function + ":" + std::to_string(each.first_line) + "-" +
                    std::to_string(each.last_line));
  }
  EXPECT_EQ(found,
            (Names{":1-1", ":2-2", "forward:4-4", "inner:5-5", "forward:7-8", "forward:9-10", ":11-11"}));
}

TEST(PythonStatements, AFunctionInOneLineHasItsBody) {
  const auto statements = ir::python_statements("def f(x): return g(x)\ndef h(x):\n    return x\n");
  ASSERT_EQ(statements.size(), 3U);
  EXPECT_EQ(statements[0].function, "f");
  EXPECT_EQ(statements[1].function, "");
}

Names expressions(const std::string& statement) {
  Names found;
  for (const ir::PythonExpression& each : ir::python_expressions(statement))
    found.push_back(each.text.substr(0, each.head));
  return found;
}

TEST(PythonExpressions, AreInTheOrderOfEvaluation) {
  EXPECT_EQ(expressions("x = f(a + b).relu() * -c"),
            (Names{"a + b", "f", "f(a + b).relu", "-c", "f(a + b).relu() * -c"}));
  EXPECT_EQ(expressions("x += y @ z"), (Names{"y @ z", "x += y @ z"}));
  EXPECT_EQ(expressions("y = 2 * 3 * f(x) - 2 ** -1"),
            (Names{"f", "2 * 3 * f(x)", "2 * 3 * f(x) - 2 ** -1"}));
  EXPECT_EQ(expressions("return 1 - x ** 2 < y"), (Names{"x ** 2", "1 - x ** 2", "1 - x ** 2 < y"}));
}

TEST(PythonExpressions, ACallEndsAtItsBracket) {
  const auto found = ir::python_expressions("y = f(g(x)[0], a=(1, ')')) + h()");
  std::vector<std::string> texts;
  for (const ir::PythonExpression& each : found)
    if (each.is_call) texts.push_back(each.text);
  EXPECT_EQ(texts, (Names{"g(x)", "f(g(x)[0], a=(1, ')'))", "h()"}));
}

TEST(PythonExpressions, WhatMayBeSkippedIsKnown) {
  const auto found = ir::python_expressions("y = [f(t) for t in x] if g(x) else x");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(std::ranges::all_of(found, &ir::PythonExpression::may_be_skipped));
}

TEST(PythonExpressions, SemicolonsSeparateStatements) {
  EXPECT_EQ(expressions("a = 1; b = f(a); c = g(';')"), (Names{"f", "g"}));
}

TEST(PythonExpressions, HeadsOfCompoundStatementsHaveTheirs) {
  EXPECT_EQ(expressions("if f(x[1:]) > 0:"), (Names{"f", "f(x[1:]) > 0"}));
  EXPECT_EQ(expressions("for y in f(x):"), Names{"f"});
  EXPECT_EQ(expressions("with f(x) as y:"), Names{"f"});
  EXPECT_EQ(expressions("def g(x=f(1)):"), Names{});
  EXPECT_EQ(expressions("else:"), Names{});
}

TEST(PythonExpressions, WhatFollowsAHeadMayBeSkipped) {
  const auto found = ir::python_expressions("if f(x): y = g(x); z = h(y)");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_FALSE(found[0].may_be_skipped);
  EXPECT_TRUE(found[1].may_be_skipped);
  EXPECT_TRUE(found[2].may_be_skipped);
}

TEST(PythonExpressions, TextOfAStringIsNone) {
  EXPECT_EQ(expressions("assert f(x), f\"{g(x)} + {y}\""), Names{"f"});
}

TEST(PythonExpressions, WhatTheParserDoesNotReadHasNone) {
  EXPECT_TRUE(ir::python_expressions("x = lambda y: f(y)").empty());
  EXPECT_TRUE(ir::python_expressions("y = f(x); z = lambda t: g(t)").empty());
}

}  // namespace read_python_source_test
}  // namespace tsq
