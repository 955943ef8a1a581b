#include "backends/kernels/layer_kind.h"

#include "ir/analysis.h"
#include "operators/functional_weighted.h"

namespace tsq::kernels {

std::optional<LayerKind> layer_kind(const ir::Model& model, const ir::Node* layer) {
  if (ir::is_module_call(layer)) {
    const ir::ModuleCall& call = ir::call_of(model, layer);
    if (call.members.empty()) return LayerKind{call.type.name};
    const PostOp post_op = post_op_of(call.type.name);
    if (post_op == PostOp::None) return std::nullopt;
    return LayerKind{call.members.front().type.name, post_op};
  }
  for (const Symbol& target : ir::targets(model, layer)) {
    const std::string_view module = operators::module_of_functional(target.name);
    if (!module.empty()) return LayerKind{module};
  }
  return std::nullopt;
}

}  // namespace tsq::kernels
