// What a layer multiplies by float weights is a float tensor, whatever container it comes out of.
//   d["out"] → conv   becomes   d["out"] → observer → conv

#include "ir/analysis.h"
#include "ir/edit.h"
#include "match/dtype_check.h"
#include "operators/functional_weighted.h"
#include "passes/context/nodes.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

bool has_weight(const Model& model, const Node* node) {
  if (ir::is_module_call(node))
    return !ir::is_opaque(model, node) && ir::weighted_of(ir::call_of(model, node)) != nullptr;
  return operators::is_functional_layer(model, node);
}

/// The QConfig of a layer whose weight is rounded and whose input should be; null for other nodes.
const QConfig* static_qconfig(const Model& model, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  return qconfig != nullptr && match::is_static(*qconfig) && has_weight(model, node) ? qconfig : nullptr;
}

/// Values about whose observer `observe` has decided: the model's inputs, what branches and loops return
/// (their blocks may hold the observers), and what a standalone module returns.
bool is_decided(const Model& model, const Value* value) {
  const Node* node = value->node();
  const bool is_input = node->kind() == c10::prim::Param && node->owningBlock() == model.graph->block();
  return is_input || ir::is_observer(node) || !node->blocks().empty() || ir::is_standalone(model, node);
}

/// An observer of `value` of the same kind, where there is one.
Node* known_observer(const Model& model, const Value* value, const ObserverSpec& spec) {
  for (Node* user : ir::users(value)) {
    if (ir::is_observer(user) && ir::observer_of(model, user).spec == spec) return user;
  }
  return nullptr;
}

}  // namespace

bool observe_layer_inputs(Model& model, const PassContext& /*context*/) {
  return change_nodes(model, [&](Node* node) {
    const QConfig* qconfig = static_qconfig(model, node);
    if (qconfig == nullptr) return false;
    Value* input = ir::operands(node).front();
    if (input->type()->kind() != TypeKind::TensorType || is_decided(model, input)) return false;
    const ObserverSpec& spec = qconfig->activation;
    Node* observer = known_observer(model, input, spec);
    if (observer == nullptr)
      observer = ir::insert_observer(model, input, new_observer(model, spec, ir::layer_of(model, node)));
    ir::replace_operand(node, input, observer->output());
    return true;
  });
}

}  // namespace tsq::passes
