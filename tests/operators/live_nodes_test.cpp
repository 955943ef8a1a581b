#include "ir/live_nodes.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace tsq::ir {
namespace live_nodes_test {

static_assert(std::input_iterator<LiveNodes::Iterator>);

std::shared_ptr<Graph> graph_of(const std::string& source) {
  auto graph = std::make_shared<Graph>();
  torch::jit::parseIR(source, graph.get());
  return graph;
}

std::shared_ptr<Graph> three() {
  return graph_of(R"IR(
graph(%x : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::tanh(%x)
  %c : Tensor = aten::neg(%x)
  return (%x))IR");
}

TEST(LiveNodes, LeaveOutWhatTheLoopHasDestroyed) {
  const auto graph = three();
  std::vector<std::string> visited;
  for (Node* node : LiveNodes(*graph)) {
    visited.emplace_back(node->kind().toUnqualString());
    if (node->kind() == c10::aten::relu) node->next()->destroy();
  }
  EXPECT_EQ(visited, (std::vector<std::string>{"relu", "neg"}));
}

TEST(LiveNodes, ANodeMayDestroyItself) {
  const auto graph = three();
  for (Node* node : LiveNodes(*graph)) node->destroy();
  EXPECT_TRUE(graph->nodes().begin() == graph->nodes().end());
}

TEST(LiveNodes, WhatTheLoopMakesIsNotVisited) {
  const auto graph = three();
  int visited = 0;
  for (Node* node : LiveNodes(*graph)) {
    graph->create(c10::aten::abs, {graph->inputs().at(0)})->insertAfter(node);
    ++visited;
  }
  EXPECT_EQ(visited, 3);
}

}  // namespace live_nodes_test
}  // namespace tsq::ir
