#include "operators/is_operator.h"

#include <string_view>

#include "ir/analysis.h"

namespace tsq::operators {

OpaqueCall opaque_call(const ir::Node* node) {
  if (node->kind() == c10::prim::CallMethod) {
    const auto& type = node->input(0)->type();
    const auto object = type->cast<c10::ClassType>();
    const bool is_module = type->kind() == c10::TypeKind::InterfaceType || (object && object->is_module());
    return is_module ? OpaqueCall::ChosenModule : OpaqueCall::Method;
  }
  if (node->kind() == c10::prim::fork) return OpaqueCall::Fork;
  const bool of_torch = node->kind().is_aten() || node->kind().is_prim() ||
                        std::string_view(node->kind().ns().toUnqualString()) == "quantized";
  return of_torch ? OpaqueCall::None : OpaqueCall::HostOperator;
}

bool is_operator(const ir::Model& model, const ir::Node* node) {
  if (ir::is_observer(node)) return false;
  if (node->kind() == c10::prim::CallMethod) return true;
  return !ir::targets(model, node).empty() || opaque_call(node) != OpaqueCall::None;
}

}  // namespace tsq::operators
