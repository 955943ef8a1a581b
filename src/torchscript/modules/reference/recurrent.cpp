// LSTM and GRU.

#include "torchscript/modules/recurrent.h"

#include "torchscript/modules/reference/reference_kind.h"

namespace tsq::torchscript {

bool build_recurrent(ir::Node* /*node*/, ir::ModuleCall& root, const ObserverSpec& weight) {
  if (!root.module) return false;
  for (const at::Tensor& each : recurrent_weights(root).weights) {
    const bool stays_float = root.recurrent_qparams.size() < root.float_recurrent_weights;
    root.recurrent_qparams.push_back(stays_float ? QParams{.dtype = c10::ScalarType::Float}
                                                 : weight_qparams(weight, each));
  }
  return !root.recurrent_qparams.empty();
}

const ReferenceKind reference_lstm{.name = "LSTM", .build = build_recurrent};

const ReferenceKind reference_gru{.name = "GRU", .build = build_recurrent};

}  // namespace tsq::torchscript
