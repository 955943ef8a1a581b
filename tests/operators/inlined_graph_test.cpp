// Graphs that hold the bodies of all that they call.

#include "operators/inlined_graph.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/testing/file_check.h>

#include "support/small_models.h"

namespace tsq::operators {
namespace inlined_graph_test {

TEST(InlinedGraph, HasNoCallsWhereTheModelRanWithoutTheOptimizer) {
  auto inner = testing::user_module("Inner");
  inner.define("def half(self, x):\n  return x / 2\ndef forward(self, x):\n  return self.half(x)\n");
  auto outer = testing::user_module("Outer");
  outer.register_module("inner", inner);
  outer.define("def forward(self, x):\n  return self.inner.forward(x)\n");
  {
    const torch::jit::GraphOptimizerEnabledGuard without_optimizer(false);
    outer.forward({at::ones({1})});
  }
  torch::jit::testing::FileCheck()
      .check_not("prim::CallMethod")
      ->check("aten::div")
      ->check_not("prim::CallMethod")
      ->run(inlined_graph(outer, "forward")->toString());
}

}  // namespace inlined_graph_test
}  // namespace tsq::operators
