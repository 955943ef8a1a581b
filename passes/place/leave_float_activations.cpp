// Activations after a layer whose kernel returns float stay float where that takes no longer, and nothing is
// rounded between the two. The sizes that calibration saw decide.
//   conv → observer → prelu → observer   becomes   conv → prelu → observer
// Whether it stays float or not, operators in float read what it returns as it is.

#include "backends/kernels/float_output.h"
#include "ir/analysis.h"
#include "passes/context/nodes.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"

namespace tsq::passes {
namespace {

/// The observer that alone reads what an observed layer returns; null where there is none.
Node* output_observer(const Model& model, const Node* layer) {
  if (ir::observed_qconfig(model, layer) == nullptr) return nullptr;
  Node* reader = ir::only_reader(layer);
  return reader != nullptr && ir::is_observer(reader) ? reader : nullptr;
}

/// The operator that alone reads an observer; null where there is none, and where the caller wants it float
/// between roundings.
Node* activation_after(const Model& model, const Node* observer) {
  Node* reader = ir::only_reader(observer);
  if (reader == nullptr) return nullptr;
  const ir::NodeRecord* record = ir::record_of(model, reader);
  return record != nullptr && record->reason == ir::Reason::LeftOut ? nullptr : reader;
}

}  // namespace

bool leave_float_activations(Model& model, const PassContext& context) {
  return change_nodes(model, [&](const Node* layer) {
    Node* observer = output_observer(model, layer);
    Node* activation = observer == nullptr ? nullptr : activation_after(model, observer);
    if (activation == nullptr || !kernels::may_stay_float_after(context.target, model, layer, activation))
      return false;
    const bool is_observed = ir::observed_qconfig(model, activation) != nullptr;
    const bool has_changed = is_observed && return_exact_value(model, activation);
    if (!kernels::stays_float_after(context.target, model, layer, activation)) return has_changed;
    if (is_observed) leave_out(model, activation, ir::Reason::FloatAfterLayer, {});
    bypass(observer);
    return true;
  });
}

}  // namespace tsq::passes
