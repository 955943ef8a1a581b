#include "passes/match/training_form.h"

#include "operators/weighted.h"

namespace tsq::passes {
namespace {

bool joins_batch_norm(const BackendPatternConfig& row) {
  switch (*row.fuser_method) {
    case Fuser::ConvBn:
    case Fuser::ConvBnReLU:
    case Fuser::ConvBnAdd:
    case Fuser::ConvBnAddReLU:
    case Fuser::ConvTransposeBn:
    case Fuser::LinearBn:
    case Fuser::LinearBnLeakyReLU:
      return true;
    default:
      return false;
  }
}

}  // namespace

const ir::Node* batch_norm_of(const ir::Model& model, const match::MatchedNode& tree) {
  for (const match::MatchedNode* matched : in_forward_order(tree)) {
    if (ir::is_batch_norm(model, matched->node)) return matched->node;
  }
  return nullptr;
}

bool has_training_form(const BackendPatternConfig& row, Recipe recipe) {
  switch (*row.fuser_method) {
    case Fuser::ConvTransposeBn:
    case Fuser::ConvBnAdd:
    case Fuser::ConvBnAddReLU:
    case Fuser::LinearBnLeakyReLU:
      return recipe == Recipe::Best;
    default:
      return true;
  }
}

bool can_train_together(const ir::Model& model, const BackendPatternConfig& row,
                        const match::MatchedNode& tree, Recipe recipe) {
  if (!has_training_form(row, recipe)) return false;
  if (!joins_batch_norm(row)) return true;
  const ir::Node* root = match::root_of(tree, row).node;
  const ir::Node* bn = batch_norm_of(model, tree);
  if (root == nullptr || bn == nullptr || !ir::is_module_call(root)) return false;
  const ir::Weighted* weighted = ir::weighted_of(ir::call_of(model, root));
  const ir::ModuleCall& call = ir::call_of(model, bn);
  const auto parameters = call.module ? operators::batch_norm_parameters(*call.module) : std::nullopt;
  if (weighted == nullptr || !parameters || !parameters->weight.defined() || !parameters->bias.defined())
    return false;
  const bool is_transposed = operators::is_transposed(ir::call_of(model, root).type);
  return !(is_transposed && weighted->groups > 1) &&
         parameters->running_var.numel() == weighted->weight.size(is_transposed ? 1 : 0);
}

std::string why_apart(const BackendPatternConfig& row, Recipe recipe) {
  return has_training_form(row, recipe)
             ? "it is not fused with what is in front of it: a batch norm trains inside of a layer only "
               "where "
               "it has statistics and a factor for each of the layer's channels"
             : "it is not fused with what is in front of it: PyTorch has no form of them that trains, and "
               "recipe fx goes without one";
}

}  // namespace tsq::passes
