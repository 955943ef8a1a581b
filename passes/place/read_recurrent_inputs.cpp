// The range that a recurrent kernel finds of its input, step by step, is that of the largest value. What is
// much smaller is lost, and the states of the layer go on without it.
//   LSTM(observer(x))   →   LSTM(x), in a fused program, which keeps what it reads in 16 bits
// Weights of 8 bits lose as much: of several layers the first, which reads values of any size, stays float.

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"
#include "torchscript/modules/recurrent.h"

namespace tsq::passes {
namespace {

/// Whether a node calls a recurrent module whose weights become bytes.
bool has_byte_weights(const Model& model, const PassContext& context, const Node* node) {
  if (!ir::is_module_call(node) || ir::placement_of(model, node) != ir::Placement::Int8) return false;
  const ir::ModuleCall& call = ir::call_of(model, node);
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  return call.module && torchscript::is_recurrent(call.type) && qconfig != nullptr &&
         resolve(qconfig->weight).dtype == c10::ScalarType::QInt8 &&
         !has_registered_reference(model, context, node);
}

/// Whether it reads its input as it is now.
bool read_unrounded(const PassContext& context, Node* node, const ir::ModuleCall& call) {
  const bool is_in_program =
      context.target.runtime == LoweringTarget::Fused && torchscript::recurrent_form(call);
  Value* read = node->input(0);
  if (!is_in_program || !ir::is_observer(read->node())) return false;
  ir::replace_operand(node, read, read->node()->input(0));
  return true;
}

bool keep_first_layer_float(Model& model, const Node* node, ir::ModuleCall& call) {
  const std::size_t first = torchscript::weights_of_first_layer(call);
  if (first == 0 || first >= torchscript::recurrent_weights(call).weights.size()) return false;
  call.float_recurrent_weights = first;
  if (Decision* decision = ir::decision_of(model, node)) {
    decision->notes.emplace_back("its first layer stays float, because it reads values of any size");
    decision->float_share = torchscript::share_of_first_weights(call, first);
  }
  return true;
}

}  // namespace

bool read_recurrent_inputs(Model& model, const PassContext& context) {
  const bool has_changed = change_nodes(model, [&](Node* node) {
    if (!has_byte_weights(model, context, node)) return false;
    ir::ModuleCall& call = ir::call_of(model, node);
    const bool reads_unrounded = read_unrounded(context, node, call);
    return keep_first_layer_float(model, node, call) || reads_unrounded;
  });
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
