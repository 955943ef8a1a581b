// What a layer multiplies by float weights is a float tensor, whatever container it comes out of.
//   d["out"] → conv   becomes   d["out"] → observer → conv

#include "passes/observe/observe_layer_inputs.h"

#include <fmt/format.h>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "match/dtype_check.h"
#include "operators/functional_weighted.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

bool has_weight(const Model& gm, const Node* node) {
  if (ir::is_standalone(gm, node)) return false;
  if (ir::is_module_call(node)) return ir::weighted_of(ir::call_of(gm, node)) != nullptr;
  for (const Symbol& target : ir::targets(gm, node)) {
    if (!operators::module_of_functional(target.name).empty()) return true;
  }
  return false;
}

/// The QConfig of a layer whose weight is rounded and whose input should be; null for other nodes.
const QConfig* static_qconfig(const Model& gm, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(gm, node);
  const bool is_static = qconfig != nullptr && match::is_static(*qconfig) && has_weight(gm, node);
  return is_static ? qconfig : nullptr;
}

/// Values about whose observer `observe` has decided: the model's inputs, what branches and loops return
/// (their blocks may hold the observers), and what a standalone module returns.
bool is_decided(const Model& gm, const Value* value) {
  const Node* node = value->node();
  const bool is_input = node->kind() == c10::prim::Param && node->owningBlock() == gm.graph->block();
  return is_input || ir::is_observer(node) || !node->blocks().empty() || ir::is_standalone(gm, node);
}

/// An observer of `value` of the same kind, where there is one.
Node* observer_of(const Model& gm, const Value* value, const ObserverSpec& spec) {
  for (Node* user : ir::users(value)) {
    if (ir::is_observer(user) && gm.observers[ir::observer_index(user)].spec == spec) return user;
  }
  return nullptr;
}

Node* new_observer(Model& gm, Value* value, const ObserverSpec& spec, const std::string& layer) {
  gm.observers.push_back({fmt::format("activation_post_process_{}", gm.observers.size()), spec, layer});
  return ir::insert_observer(gm, value, gm.observers.size() - 1);
}

}  // namespace

void observe_layer_inputs(Model& gm) {
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    const QConfig* qconfig = static_qconfig(gm, node);
    if (qconfig == nullptr) continue;
    Value* input = ir::operands(node).front();
    if (input->type()->kind() != c10::TypeKind::TensorType || is_decided(gm, input)) continue;
    const ObserverSpec spec = qconfig->activation;
    const std::string layer =
        ir::is_module_call(node) ? ir::call_of(gm, node).path : ir::scope_of(gm, node).path;
    Node* observer = observer_of(gm, input, spec);
    if (observer == nullptr) observer = new_observer(gm, input, spec, layer);
    ir::replace_operand(node, input, observer->output());
  }
}

}  // namespace tsq::passes
