#pragma once

#include "ir/analysis.h"
#include "passes/context/names.h"

/// nn.LSTM as a custom module (E-09): the one that takes and returns tuples of quantized tensors.
namespace tsq::passes {

/// Whether a node calls one: nn.LSTM, or the observed or quantized module that has taken its place, whatever
/// its class. No other custom module that returns a tuple becomes observed.
inline bool is_custom_lstm(const Model& model, const Node* node) {
  if (!ir::is_module_call(node) || node->output()->type()->kind() != TypeKind::TupleType) return false;
  const ir::ModuleCall& call = ir::call_of(model, node);
  return call.custom == ir::CustomState::Float ? call.type.name == "torch.nn.LSTM"
                                               : call.custom != ir::CustomState::None;
}

/// The call whose tuple a value is taken out of; null for other values.
inline const Node* custom_lstm_of(const Model& model, const Value* value) {
  const Node* node = value->node();
  if (node->kind() != c10::prim::TupleUnpack) return nullptr;
  while (node->kind() == c10::prim::TupleUnpack) node = node->input(0)->node();
  return is_custom_lstm(model, node) ? node : nullptr;
}

}  // namespace tsq::passes
