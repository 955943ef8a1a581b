// The range that a recurrent kernel finds of its input, step by step, is that of the largest value. What is
// much smaller is lost, and the states of the layer go on without it.

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

/// Programs do not round what the layer reads to 8 bits.
bool is_in_program(const PassContext& context, const ir::ModuleCall& call) {
  return context.target.runtime == LoweringTarget::Fused && torchscript::recurrent_form(call);
}

}  // namespace

bool read_recurrent_inputs(Model& model, const PassContext& context) {
  return change_nodes(model, [&](const Node* node) {
    if (!has_byte_weights(model, context, node)) return false;
    ir::ModuleCall& call = ir::call_of(model, node);
    if (is_in_program(context, call)) return false;
    const std::size_t first = torchscript::weights_of_first_layer(call);
    if (first == 0 || first >= torchscript::recurrent_weights(call).weights.size()) return false;
    call.float_recurrent_weights = first;
    if (Decision* decision = ir::decision_of(model, node))
      decision->notes.emplace_back("its first layer stays float, because it reads values of any size");
    return true;
  });
}

}  // namespace tsq::passes
