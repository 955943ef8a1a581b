#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/backends.h>

#include <optional>

#include "ir/analysis.h"
#include "passes/match/passes.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace match_test {

using torch::jit::Module;

/// relu(sigmoid(x) + conv(x)), and the matches under `pattern` and a row for Conv2d.
struct Matched {
  ir::Model model;
  passes::PassContext context{.table = BackendConfig("own")};
};

Matched match_sum(const Pattern& pattern) {
  Module model = testing::user_module("SumOfConv");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.register_module("relu", testing::relu());
  model.define(
      "def forward(self, x):\n  return self.relu.forward(torch.add(torch.sigmoid(x), "
      "self.conv.forward(x)))\n");
  Matched result{.model = testing::captured(model)};
  result.context.table.set_backend_pattern_config({.pattern_complex_format = pattern});
  result.context.table.set_backend_pattern_config({.pattern = symbol("torch.nn.Conv2d")});
  passes::match(result.model, result.context);
  return result;
}

std::vector<std::string> names_of(const Matched& matched, const std::vector<ir::Node*>& nodes) {
  std::vector<std::string> names;
  for (const ir::Node* node : nodes) names.push_back(ir::display_name(matched.model, node));
  return names;
}

const Symbol kRelu = symbol("torch.nn.ReLU");
const Symbol kAdd = symbol("torch.add");
const Symbol kConv = symbol("torch.nn.Conv2d");

TEST(Match, APatternClaimsTheOperatorThatMatchAllStandsFor) {
  const Matched matched = match_sum(kRelu(kAdd(match_all, kConv)));
  ASSERT_EQ(matched.model.matches.size(), 1U);
  const ir::Match& match = matched.model.matches.front();
  EXPECT_EQ(names_of(matched, match.nodes),
            (std::vector<std::string>{"torch.nn.ReLU", "aten::add", "aten::sigmoid", "torch.nn.Conv2d"}));
  EXPECT_EQ(ir::display_name(matched.model, match.root), "torch.nn.Conv2d");
}

TEST(Match, TheRootIsTheLastOperatorEvenAfterMatchAll) {
  const Matched matched = match_sum(kRelu(kAdd(match_all, match_all)));
  ASSERT_EQ(matched.model.matches.size(), 1U);
  EXPECT_EQ(ir::display_name(matched.model, matched.model.matches.front().root), "torch.nn.Conv2d");
}

TEST(Match, AConvolutionOutsideOfThePatternTakesItsOwnRow) {
  const Matched matched = match_sum(kRelu(kAdd));
  ASSERT_EQ(matched.model.matches.size(), 2U);
  EXPECT_EQ(names_of(matched, matched.model.matches[1].nodes), std::vector<std::string>{"torch.nn.Conv2d"});
}

TEST(Match, EveryOperatorHasItsQConfigAndItsMatch) {
  Module model = testing::user_module("Two");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.define("def forward(self, x):\n  return torch.erf(self.conv.forward(x))\n");
  ir::Model made = testing::captured(model);
  const passes::PassContext context{.table = backend_config("x86"), .mapping = default_qconfig_mapping()};
  passes::match(made, context);
  ASSERT_EQ(made.matches.size(), 1U);
  for (const ir::Node* node : ir::nodes_in_order(*made.graph)) {
    if (node->kind() == c10::prim::Constant) continue;
    const ir::NodeRecord* record = ir::record_of(made, node);
    ASSERT_NE(record, nullptr) << *node;
    EXPECT_TRUE(record->lookup.qconfig.has_value()) << *node;
    EXPECT_EQ(record->match, ir::is_module_call(node) ? std::optional<std::size_t>(0) : std::nullopt);
  }
}

TEST(Match, WhatIsWrittenIsMatchedByNoRow) {
  Module model = testing::user_module("Written");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.define("def forward(self, x):\n  return self.conv.forward(x)\n");
  ir::Model made = testing::captured(model);
  const passes::PassContext context{.table = backend_config("x86"), .mapping = default_qconfig_mapping()};
  for (ir::Node* node : made.graph->nodes()) ir::record_for(made, node).placement = ir::Placement::Written;
  passes::match(made, context);
  EXPECT_TRUE(made.matches.empty());
  for (const ir::Node* node : made.graph->nodes())
    EXPECT_EQ(ir::placement_of(made, node), ir::Placement::Written) << *node;
}

TEST(LeaveUnswapped, ALayerWithoutReferenceModuleStaysFloatAndSaysWhy) {
  Module model = testing::user_module("Own");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.define("def forward(self, x):\n  return self.conv.forward(x)\n");
  ir::Model made = testing::normalised(model);
  passes::PassContext context{.table = BackendConfig("own"), .mapping = default_qconfig_mapping()};
  context.table.set_backend_pattern_config({.pattern = kConv});
  passes::match(made, context);
  EXPECT_TRUE(passes::leave_unswapped(made, context));
  EXPECT_TRUE(made.matches.empty());
  const ir::NodeRecord* record = ir::record_of(made, made.graph->outputs().front()->node());
  ASSERT_NE(record, nullptr);
  EXPECT_FALSE(record->lookup.qconfig.has_value());
  EXPECT_EQ(record->placement, ir::Placement::Float);
  EXPECT_EQ(record->reason, ir::Reason::NoReferenceModule);
  EXPECT_EQ(record->decision.reason, "the table has no reference module for torch.nn.Conv2d");
}

}  // namespace match_test
}  // namespace tsq
