// Nothing is rounded between a layer whose kernel returns float and an activation that is as fast in float.
//   conv → observer → prelu → observer   becomes   conv → prelu → observer

#include "backends/kernels/float_output.h"
#include "ir/analysis.h"
#include "passes/context/nodes.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"

namespace tsq::passes {
namespace {

using ir::NodeRecord;

/// What was left float for such a layer, which turned out to be too small, has a kernel all the same.
bool quantize_after_all(NodeRecord* record) {
  if (record == nullptr || record->reason != ir::Reason::FloatAfterLayer) return false;
  compute_in_int8(*record);
  return true;
}

/// The observer that alone reads what an observed layer returns; null where there is none.
Node* output_observer(const Model& model, const Node* layer) {
  if (ir::observed_qconfig(model, layer) == nullptr) return nullptr;
  Node* reader = ir::only_reader(layer);
  return reader != nullptr && ir::is_observer(reader) ? reader : nullptr;
}

/// The operator that alone reads an observer and was float before calibration; null where there is none.
const Node* float_activation(const Model& model, const Node* observer) {
  const Node* reader = ir::only_reader(observer);
  if (reader == nullptr || ir::observed_qconfig(model, reader) != nullptr) return nullptr;
  const NodeRecord* record = ir::record_of(model, reader);
  return record != nullptr && record->reason == ir::Reason::LeftOut ? nullptr : reader;
}

}  // namespace

bool drop_output_observers(Model& model, const PassContext& context) {
  bool has_changed = false;
  std::vector<Node*> idle;
  for (const Node* layer : ir::nodes_in_order(*model.graph)) {
    Node* observer = output_observer(model, layer);
    const Node* activation = observer == nullptr ? nullptr : float_activation(model, observer);
    if (activation == nullptr) continue;
    if (kernels::stays_float_after(context.target, model, layer, activation)) {
      idle.push_back(observer);
    } else {
      has_changed = quantize_after_all(ir::record_of(model, activation)) || has_changed;
    }
  }
  for (Node* observer : idle) bypass(observer);
  return has_changed || !idle.empty();
}

}  // namespace tsq::passes
