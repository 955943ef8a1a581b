// A layer whose input is not rounded multiplies in float: rounding its weight would only cost accuracy.
//   linear(x, observer(w))   →   linear(x, w)

#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "passes/context/nodes.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

bool is_static(const Model& model, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  return qconfig != nullptr && match::is_static(*qconfig);
}

/// What the rounded weight of F.linear or F.conv* is made of; null for others, and where it is not rounded.
Value* exact_weight(const Model& model, Node* node) {
  if (!is_functional_layer(model, node) || node->inputs().size() < 2) return nullptr;
  const Node* observer = node->input(1)->node();
  const bool is_rounded_now =
      ir::is_observer(observer) && !resolve(ir::observer_of(model, observer).spec).is_dynamic;
  return is_rounded_now ? const_cast<Node*>(observer)->input(0) : nullptr;
}

/// Whether the weight was to be rounded.
bool keep_exact_weight(Model& model, const PassContext& context, Node* node) {
  if (int8_layer(model, context, node) != nullptr) {
    compute_in_float(model, node, ir::Reason::ReadsFloat);
    return true;
  }
  Value* weight = ir::is_module_call(node) ? nullptr : exact_weight(model, node);
  if (weight == nullptr) return false;
  node->replaceInput(1, weight);
  ir::leave_float(model, node, ir::Placement::Float, ir::Reason::ReadsFloat);
  return true;
}

}  // namespace

bool keep_exact_weights(Model& model, const PassContext& context) {
  const bool has_changed = change_nodes(model, [&](Node* node) {
    return !node->inputs().empty() && is_static(model, node) && !is_rounded(model, context, node->input(0)) &&
           keep_exact_weight(model, context, node);
  });
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
