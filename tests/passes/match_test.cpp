#include <gtest/gtest.h>
#include <torch/script.h>

#include "passes/passes.h"
#include "support/small_models.h"

namespace tsq {
namespace {

using torch::jit::Module;

/// relu(sigmoid(x) + conv(x)), and the matches under `pattern` and a row for Conv2d.
struct Matched {
  ir::Model gm;
  BackendConfig backend{"own"};
  passes::MatchTable table;
};

Matched match_sum(const Pattern& pattern) {
  Module model = testing::user_module("SumOfConv");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.register_module("relu", testing::relu());
  model.define(
      "def forward(self, x):\n  return self.relu.forward(torch.add(torch.sigmoid(x), "
      "self.conv.forward(x)))\n");
  Matched result{.gm = passes::capture(model, {}), .table = {}};
  result.backend.set_backend_pattern_config({.pattern_complex_format = pattern});
  result.backend.set_backend_pattern_config({.pattern = symbol("torch.nn.Conv2d")});
  result.table = passes::match(result.gm, QConfigMapping{}, result.backend);
  return result;
}

std::vector<std::string> names_of(const Matched& matched, const std::vector<ir::Node*>& nodes) {
  std::vector<std::string> names;
  for (const ir::Node* node : nodes) names.push_back(ir::display_name(matched.gm, node));
  return names;
}

const Symbol kRelu = symbol("torch.nn.ReLU");
const Symbol kAdd = symbol("torch.add");
const Symbol kConv = symbol("torch.nn.Conv2d");

TEST(Match, APatternClaimsTheOperatorThatMatchAllStandsFor) {
  const Matched matched = match_sum(kRelu(kAdd(match_all, kConv)));
  ASSERT_EQ(matched.table.matches.size(), 1U);
  const passes::Match& match = matched.table.matches.front();
  EXPECT_EQ(names_of(matched, match.nodes),
            (std::vector<std::string>{"torch.nn.ReLU", "aten::add", "aten::sigmoid", "torch.nn.Conv2d"}));
  EXPECT_EQ(ir::display_name(matched.gm, match.root), "torch.nn.Conv2d");
}

TEST(Match, TheRootIsTheLastOperatorEvenAfterMatchAll) {
  const Matched matched = match_sum(kRelu(kAdd(match_all, match_all)));
  ASSERT_EQ(matched.table.matches.size(), 1U);
  EXPECT_EQ(ir::display_name(matched.gm, matched.table.matches.front().root), "torch.nn.Conv2d");
}

TEST(Match, AConvolutionOutsideOfThePatternTakesItsOwnRow) {
  const Matched matched = match_sum(kRelu(kAdd));
  ASSERT_EQ(matched.table.matches.size(), 2U);
  EXPECT_EQ(names_of(matched, matched.table.matches[1].nodes), std::vector<std::string>{"torch.nn.Conv2d"});
}

}  // namespace
}  // namespace tsq
