#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/error.h>

#include "ir/analysis.h"
#include "passes/plain/passes.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace capture_test {

using torch::jit::Module;

std::vector<std::string> operators_of(const ir::Model& model) {
  std::vector<std::string> names;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::targets(model, node).empty()) names.push_back(ir::display_name(model, node));
  }
  return names;
}

TEST(Capture, KeepsLeafModulesAsCallsAndInlinesTheRest) {
  Module outer = testing::user_module("Outer");
  outer.register_module("block", testing::conv_bn_relu());
  outer.define("def forward(self, x):\n  return self.block.forward(x) + 1\n");
  const ir::Model model = testing::captured(outer);
  EXPECT_EQ(operators_of(model), (std::vector<std::string>{"torch.nn.Conv2d", "torch.nn.BatchNorm2d",
                                                           "torch.nn.ReLU", "aten::add"}));
  EXPECT_EQ(model.calls.front().path, "block.conv");
}

TEST(Capture, DoesNotChangeTheUsersModule) {
  Module model = testing::conv_bn_relu();
  const std::string before = model.get_method("forward").graph()->toString();
  testing::captured(model);
  EXPECT_EQ(model.get_method("forward").graph()->toString(), before);
  EXPECT_TRUE(model.attr("training").toBool());
  EXPECT_TRUE(model.attr("bn").toModule().attr("training").toBool());
}

TEST(Capture, FoldsWhatDependsOnTrainingOnly) {
  Module model = testing::user_module("TrainingBranch");
  model.define(
      "def forward(self, x):\n  if self.training:\n    x = torch.sin(x)\n  else:\n    x = torch.cos(x)\n  "
      "return x\n");
  EXPECT_EQ(operators_of(testing::captured(model)), std::vector<std::string>{"aten::cos"});
}

TEST(Capture, SeesTheElementsOfAListThatGrows) {
  Module model = testing::user_module("Grows");
  model.define(
      "def forward(self, x):\n  l = [x]\n  l.append(torch.sin(x))\n  y = torch.cat(l, 1)\n  "
      "l.append(torch.cos(y))\n  return torch.cat(l, 1)\n");
  const ir::Model made = testing::captured(model);
  std::vector<std::size_t> elements;
  for (const ir::Node* node : ir::nodes_in_order(*made.graph)) {
    if (node->kind() == c10::aten::cat) elements.push_back(ir::arguments(node).front().elements.size());
  }
  EXPECT_EQ(elements, (std::vector<std::size_t>{2, 3}));
}

TEST(Capture, SeesTheValuesOfADictThatIsFilledKeyByKey) {
  Module model = testing::user_module("Fills");
  model.define(
      "def forward(self, x):\n  d = {'a': torch.sin(x)}\n  d['b'] = torch.cos(d['a'])\n  d['a'] = d['b'] + "
      "x\n"
      "  return d['a'] * d['b']\n");
  const ir::Model made = testing::captured(model);
  EXPECT_EQ(operators_of(made),
            (std::vector<std::string>{"aten::sin", "aten::cos", "aten::add", "aten::mul"}));
  for (const ir::Node* node : ir::nodes_in_order(*made.graph))
    EXPECT_NE(node->kind(), c10::prim::DictConstruct);
}

TEST(Capture, KeepsADictWhoseKeysAreComputed) {
  Module model = testing::user_module("Computes");
  model.define("def forward(self, x, key: str):\n  d = {'a': x}\n  d[key] = torch.cos(x)\n  return d['a']\n");
  const ir::Model made = testing::captured(model);
  EXPECT_NE(made.graph->toString().find("aten::_set_item"), std::string::npos);
}

TEST(Capture, KeepsACatOfACat) {
  Module model = testing::user_module("NestedCat");
  model.define("def forward(self, x):\n  return torch.cat([x, torch.cat([x, x], 1)], 1)\n");
  EXPECT_EQ(operators_of(testing::captured(model)), (std::vector<std::string>{"aten::cat", "aten::cat"}));
}

TEST(Capture, UnrollsALoopOfKnownLength) {
  Module model = testing::user_module("Loop");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  for i in range(3):\n    x = self.conv.forward(x)\n  return x\n");
  EXPECT_EQ(operators_of(testing::captured(model)), (std::vector<std::string>(3, "torch.nn.Conv2d")));
}

TEST(Capture, KeepsStateThatTheModelWrites) {
  Module model = testing::user_module("Counter");
  model.register_attribute("count", c10::IntType::get(), int64_t{0});
  model.define("def forward(self, x):\n  self.count = self.count + 1\n  return x * self.count\n");
  const ir::Model made = testing::captured(model);
  EXPECT_NE(made.graph->toString().find("prim::SetAttr"), std::string::npos);
}

TEST(Capture, NamesAModelWithoutForward) {
  const Module model = testing::user_module("Empty");
  try {
    testing::captured(model);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadModel);
    EXPECT_NE(std::string(error.what()).find("no method 'forward'"), std::string::npos);
  }
}

TEST(Normalise, MakesAnInPlaceAdditionOutOfPlaceWhereNobodySeesIt) {
  Module model = testing::user_module("InPlace");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  y = self.conv.forward(x)\n  y += x\n  return y\n");
  const ir::Model made = testing::normalised(model);
  EXPECT_EQ(operators_of(made).back(), "aten::add");
}

TEST(Normalise, KeepsAnInPlaceAdditionThatIsReadThroughAnotherName) {
  Module model = testing::user_module("Aliased");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.define(
      "def forward(self, x):\n  y = self.conv.forward(x)\n  z = y.view([-1])\n  y += x\n  return z\n");
  const ir::Model made = testing::normalised(model);
  EXPECT_EQ(operators_of(made).back(), "aten::add_");
}

TEST(Normalise, ReadsANumberMinusATensorAsOneSubtraction) {
  Module model = testing::user_module("Minus");
  model.define("def forward(self, x):\n  return 1.0 - x\n");
  const ir::Model made = testing::normalised(model);
  EXPECT_EQ(operators_of(made), std::vector<std::string>{"aten::rsub"});
  for (const ir::Node* node : ir::nodes_in_order(*made.graph)) {
    if (node->kind() != c10::aten::rsub) continue;
    EXPECT_EQ(ir::targets(made, node), std::vector<Symbol>{symbol("operator.sub")});
  }
}

TEST(Normalise, ReadsAnIndexOfSeveralPlacesAsOneOperator) {
  Module model = testing::user_module("Index");
  model.define("def forward(self, x):\n  return x[:, 1:4], x[:]\n");
  EXPECT_EQ(operators_of(testing::normalised(model)),
            (std::vector<std::string>{"aten::slice", "aten::slice"}));
}

TEST(Targets, TellHowManyArgumentsWereWrittenByPosition) {
  Module model = testing::user_module("Calls");
  model.define(R"(
def forward(self, x):
  a = torch.flatten(x, 1)
  b = torch.flatten(a, start_dim=1)
  c = torch.clamp(b.reshape([-1, 2 * (3 + 1)]),
                  max=min(1.0, 2.0))
  return torch.add(c.relu_(), c, alpha=2) + c
)");
  const ir::Model made = testing::captured(model);
  std::vector<std::pair<std::string, std::optional<std::size_t>>> counts;
  for (const ir::Node* node : ir::nodes_in_order(*made.graph)) {
    const auto spellings = ir::targets(made, node);
    if (!spellings.empty())
      counts.emplace_back(spellings.front().name, ir::positional_arguments(node, spellings.front()));
  }
  const std::vector<std::pair<std::string, std::optional<std::size_t>>> expected{
      {"torch.flatten", 2}, {"torch.flatten", 1}, {"reshape", 2},     {"torch.clamp", 1},
      {"relu_", 1},         {"torch.add", 2},     {"operator.add", 2}};
  EXPECT_EQ(counts, expected);
}

TEST(Normalise, KeepsTheNegativeThatSomebodyWrote) {
  Module model = testing::user_module("Negative");
  model.define("def forward(self, x):\n  return torch.neg(x) + 1.0\n");
  EXPECT_EQ(operators_of(testing::normalised(model)), (std::vector<std::string>{"aten::neg", "aten::add"}));
}

/// `x + constant` as tracing writes it.
std::string second_type_of_sum(const at::Tensor& constant) {
  Module model = testing::user_module("Sum");
  model.define("def forward(self, x, y):\n  return x + y\n");
  ir::Model made = testing::captured(model);
  ir::Node* sum = nullptr;
  for (ir::Node* node : ir::nodes_in_order(*made.graph)) {
    if (node->kind() == c10::aten::add) sum = node;
  }
  const torch::jit::WithInsertPoint guard(sum);
  sum->replaceInput(1, made.graph->insertConstant(constant));
  passes::untrace(made, {});
  for (const ir::Node* node : ir::nodes_in_order(*made.graph)) {
    if (node->kind() == c10::aten::add) return node->input(1)->type()->str();
  }
  return {};
}

TEST(Untrace, ReadsTheNumbersThatTracingMadeTensors) {
  EXPECT_EQ(second_type_of_sum(at::scalar_tensor(2.5, at::kDouble)), "float");
  EXPECT_EQ(second_type_of_sum(at::scalar_tensor(3, at::kLong)), "int");
  EXPECT_EQ(second_type_of_sum(at::scalar_tensor(2.5, at::kFloat)), "Tensor");
  EXPECT_EQ(second_type_of_sum(at::ones({2}, at::kDouble)), "Tensor");
}

}  // namespace capture_test
}  // namespace tsq
