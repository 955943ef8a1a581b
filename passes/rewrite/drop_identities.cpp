// Modules that return their input in evaluation, and slices of everything, are removed: tracing and
// freezing drop the former too, and an observer after one would round a value twice.
//   y = Identity(x); z = conv(y)   →   z = conv(x)
//   x[:, :4]                       →   slice(x, 1, 0, 4), not slice(slice(x, 0), 1, 0, 4)

#include "ir/constants.h"
#include "operators/arguments.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {
namespace {

bool is_training(const torch::jit::Module& module) {
  return module.hasattr("training") && module.attr("training").toBool();
}

bool returns_its_input(const Model& model, const Node* node) {
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(model, node);
    return operators::has(operators::traits_of(model, node), operators::IsIdentity) && call.module &&
           !is_training(*call.module);
  }
  const bool is_written = ir::placement_of(model, node) == ir::Placement::Written;
  return (operators::takes_all(node) && !is_written) ||
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
