// LibTorch's optimizer takes what a convolution returns for a batch, and folds the dim of it, or of what is
// computed from it, to the rank of one. The convolution of a single sample returns a rank less: a branch on
// dim() would then go the wrong way.

#include <algorithm>
#include <string_view>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/pack/passes.h"

namespace tsq::passes {
namespace {

bool is_convolution(const Model& model, const Node* node) {
  if (const ir::Weighted* weighted = weighted_at(model, node)) return !weighted->stride.empty();
  return std::string_view(node->kind().toUnqualString()).find("conv") != std::string_view::npos;
}

}  // namespace

bool count_dimensions(Model& model, const PassContext& /*context*/) {
  const bool convolves = std::ranges::any_of(ir::nodes_in_order(*model.graph),
                                             [&](const Node* node) { return is_convolution(model, node); });
  const auto asks = [](const Node* node) { return node->kind() == c10::aten::dim; };
  return convolves && change_nodes(model, asks, [](Node* node) {
           Value* sizes = ir::insert_before(node, "aten::size", {node->input(0)}, c10::ListType::ofInts());
           Value* count = ir::insert_before(node, "aten::len", {sizes}, c10::IntType::get());
           for (Value* made : {sizes, count}) ir::take_scope(made->node(), node);
           node->output()->replaceAllUsesWith(count);
           node->destroy();
         });
}

}  // namespace tsq::passes
