// Assertions of torch.nn about shapes, which inlining brings into the graph, are readers that FX does not
// see: they would keep a convolution from being fused with its batch norm.
//   if dim(conv) != 4: raise …; bn = BatchNorm2d(conv)   →   bn = BatchNorm2d(conv)

#include <algorithm>

#include "ir/origin.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::Node;

bool only_raises(const torch::jit::Block* block) {
  const auto nodes = block->nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const Node* node) { return node->kind() == c10::prim::RaiseException; });
}

/// An assertion of torch.nn about the shape of an argument, which the operator behind it makes as well. FX
/// does not see it either.
bool is_library_assertion(const Node* node) {
  if (node->kind() != c10::prim::If || !node->outputs().empty()) return false;
  const torch::jit::Block* then = node->blocks()[0];
  const torch::jit::Block* otherwise = node->blocks()[1];
  const bool raises = (only_raises(then) && otherwise->nodes().begin() == otherwise->nodes().end()) ||
                      (only_raises(otherwise) && then->nodes().begin() == then->nodes().end());
  if (!raises) return false;
  const Node* condition = node->input(0)->node();
  const auto is_library = [](const Node* each) {
    const ir::Origin::Writer writer = ir::origin_of(each).writer;
    return writer == ir::Origin::Writer::Functional || writer == ir::Origin::Writer::Module;
  };
  return is_library(condition) || is_library(node);
}

/// `a or b` of such an assertion.
bool is_unused_condition(const Node* node) {
  if (node->kind() != c10::prim::If || node->outputs().empty() || node->hasUses()) return false;
  return std::all_of(node->blocks().begin(), node->blocks().end(), [](const torch::jit::Block* block) {
    return std::all_of(block->nodes().begin(), block->nodes().end(), [](const Node* inner) {
      const c10::FunctionSchema* schema = inner->maybeSchema();
      return inner->kind() == c10::prim::Constant ||
             (inner->kind().is_aten() && schema != nullptr && !schema->is_mutable());
    });
  });
}

}  // namespace

void drop_library_assertions(ir::GraphModule& gm) {
  // Last first: what an inner one needs for its condition goes with it.
  std::vector<Node*> nodes = ir::nodes_in_order(*gm.graph);
  std::reverse(nodes.begin(), nodes.end());
  for (Node* node : nodes) {
    if (is_library_assertion(node) || is_unused_condition(node)) node->destroy();
  }
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
