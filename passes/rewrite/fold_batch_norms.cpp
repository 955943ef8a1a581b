// A batch norm before a convolution becomes part of it, where the convolution pads nothing: padding comes
// after the batch norm and is zero there, which no input of the convolution alone would be.
//   y = BatchNorm2d(x); z = Conv2d(y)   →   z = Conv2d(x)
// Batch norms after a convolution or linear layer are rows of the tables (fuse).

#include <algorithm>

#include "ir/analysis.h"
#include "operators/weighted.h"
#include "passes/context/nodes.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {
namespace {

/// A convolution of a class of its own, with nothing fused into it.
bool is_convolution(const Model& model, const Node* node) {
  if (!ir::is_module_call(node) || ir::is_opaque(model, node)) return false;
  const ir::ModuleCall& call = ir::call_of(model, node);
  return call.weighted && call.members.empty() && call.type.name.starts_with("torch.nn.Conv") &&
         !operators::is_transposed(call.type);
}

bool pads(const ir::Weighted& weighted) {
  return weighted.padding_name == "same" ||
         std::ranges::any_of(weighted.padding, [](int64_t size) { return size != 0; });
}

/// Whether a weighted operator before the batch norm can take it in.
bool is_after_weights(const Model& model, const Node* batch_norm) {
  const Node* before = batch_norm->input(0)->node();
  return weighted_at(model, before) != nullptr && batch_norm->input(0)->uses().size() == 1;
}

Node* convolution_after(const Model& model, const Node* batch_norm) {
  Node* user = ir::only_reader(batch_norm);
  return user != nullptr && user->owningBlock() == batch_norm->owningBlock() && is_convolution(model, user) &&
                 !pads(*ir::call_of(model, user).weighted)
             ? user
             : nullptr;
}

}  // namespace

bool fold_batch_norms(Model& model, const PassContext& /*context*/) {
  bool changed = false;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_batch_norm(model, node) || is_after_weights(model, node)) continue;
    Node* convolution = convolution_after(model, node);
    const ir::ModuleCall& batch_norm = ir::call_of(model, node);
    if (convolution == nullptr || !batch_norm.module) continue;
    const auto parameters = operators::batch_norm_parameters(*batch_norm.module);
    ir::ModuleCall& call = ir::call_of(model, convolution);
    if (!parameters ||
        parameters->running_mean.numel() != call.weighted->weight.size(1) * call.weighted->groups)
      continue;
    call.weighted = operators::fold_batch_norm_before(*call.weighted, *parameters);
    call.module.reset();
    convolution->replaceInput(0, node->input(0));
    node->destroy();
    changed = true;
  }
  return changed;
}

}  // namespace tsq::passes
