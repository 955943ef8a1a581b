// Modules that return their input in evaluation, and slices of everything, are removed: tracing and
// freezing drop the former too, and an observer after one would round a value twice.
//   y = Identity(x); z = conv(y)   →   z = conv(x)
//   x[:, :4]                       →   slice(x, 1, 0, 4), not slice(slice(x, 0), 1, 0, 4)

#include <torch/csrc/jit/ir/constants.h>

#include <limits>

#include "ir/constants.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {
namespace {

bool is_training(const torch::jit::Module& module) {
  return module.hasattr("training") && module.attr("training").toBool();
}

/// `x[:]`, also along any dimension, of memory that nobody writes into.
bool takes_all(const Model& model, const Node* node) {
  if (node->kind() != c10::aten::slice || ir::placement_of(model, node) == ir::Placement::Written ||
      !node->input(0)->type()->isSubtypeOf(*c10::TensorType::get()))
    return false;
  const auto is_none_or = [](const torch::jit::Value* value, int64_t number) {
    const auto constant = torch::jit::toIValue(value);
    return constant && (constant->isNone() || (constant->isInt() && constant->toInt() == number));
  };
  return is_none_or(node->input(2), 0) && is_none_or(node->input(3), std::numeric_limits<int64_t>::max()) &&
         ir::whole_number_constant(node->input(4)) == 1;
}

bool returns_its_input(const Model& model, const Node* node) {
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(model, node);
    return operators::has(operators::traits_of(model, node), operators::IsIdentity) && call.module &&
           !is_training(*call.module);
  }
  return takes_all(model, node) ||
         (node->kind().is_aten() && operators::has(operators::traits_of(node), operators::IsIdentity) &&
          ir::flag_constant(node->input(2)) == false);
}

}  // namespace

bool drop_identities(Model& model, const PassContext& /*context*/) {
  const auto is_identity = [&](const Node* node) {
    return returns_its_input(model, node) && !node->inputs().empty() && node->outputs().size() == 1;
  };
  return change_nodes(model, is_identity, bypass);
}

}  // namespace tsq::passes
