// Assertions of torch.nn about shapes, which inlining brings into the graph, are readers that FX does not
// see: they would keep a convolution from being fused with its batch norm.
//   if dim(conv) != 4: raise …; bn = BatchNorm2d(conv)   →   bn = BatchNorm2d(conv)

#include <algorithm>
#include <array>
#include <ranges>
#include <string_view>

#include "ir/analysis.h"
#include "ir/origin.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {
namespace {

bool only_raises(const torch::jit::Block* block) {
  return std::ranges::any_of(block->nodes(),
                             [](const Node* node) { return node->kind() == c10::prim::RaiseException; });
}

/// An assertion of torch.nn about the shape of an argument, which the operator after it makes as well. FX
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

bool only_asks(const torch::jit::Block* block);

/// Constants, and questions about shapes and dtypes.
bool only_asks(const Node* node) {
  constexpr std::array<std::string_view, 6> kQuestions{"prim::Constant",  "prim::GetAttr",
                                                       "prim::dtype",     "prim::device",
                                                       "prim::is_nested", "prim::ListConstruct"};
  if (std::ranges::find(kQuestions, std::string_view(node->kind().toQualString())) != kQuestions.end())
    return true;
  if (node->kind() == c10::prim::If)
    return std::ranges::all_of(node->blocks(),
                               [](const torch::jit::Block* block) { return only_asks(block); });
  const c10::FunctionSchema* schema = node->maybeSchema();
  return node->kind().is_aten() && schema != nullptr && !schema->is_mutable();
}

bool only_asks(const torch::jit::Block* block) {
  return std::ranges::all_of(block->nodes(), [](const Node* node) { return only_asks(node); });
}

/// `a or b` of such an assertion, or what it would say.
bool is_unused_condition(const Node* node) {
  return node->kind() == c10::prim::If && !node->hasUses() && only_asks(node);
}

}  // namespace

bool drop_library_assertions(ir::Model& model, const PassContext& /*context*/) {
  bool changed = false;
  // Last first: what an inner one needs for its condition goes with it.
  for (Node* node : std::views::reverse(ir::nodes_in_order(*model.graph))) {
    if (!is_library_assertion(node) && !is_unused_condition(node)) continue;
    node->destroy();
    changed = true;
  }
  return ir::eliminate_dead_code(*model.graph) || changed;
}

}  // namespace tsq::passes
