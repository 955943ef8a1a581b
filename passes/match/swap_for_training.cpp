// Layers → layers that fake-quantize their weight while they train (torch/ao/quantization/fx/prepare.py,
// _qat_swap_modules).

#include "passes/train/swap_for_training.h"

#include <algorithm>

#include "ir/analysis.h"
#include "match/qconfig_lookup.h"

namespace tsq::passes {
namespace {

const BackendPatternConfig* row_to_train(const BackendConfig& backend, Symbol type) {
  const auto found = std::ranges::find_if(backend.configs(), [&](const BackendPatternConfig& row) {
    return row.qat_module && row.key() == Pattern(type);
  });
  return found == backend.configs().end() ? nullptr : &*found;
}

/// _update_qconfig_for_qat.
QConfigMapping with_training_types(const QConfigMapping& mapping, const BackendConfig& backend) {
  QConfigMapping result = mapping;
  for (const auto& [type, qconfig] : mapping.object_type_qconfigs()) {
    const BackendPatternConfig* row = row_to_train(backend, type);
    if (row != nullptr) result.set_object_type(*row->qat_module, qconfig);
  }
  return result;
}

/// The levels that propagate_qconfig_ reads: get_flattened_qconfig_dict has no others.
QConfigMapping without_patterns(const QConfigMapping& mapping) {
  QConfigMapping result;
  result.set_global(mapping.global_qconfig());
  for (const auto& [type, qconfig] : mapping.object_type_qconfigs()) result.set_object_type(type, qconfig);
  for (const auto& [name, qconfig] : mapping.module_name_qconfigs()) result.set_module_name(name, qconfig);
  return result;
}

/// The table of an embedding has a float zero point for each row (QT-40); FX stops the model for others.
bool trains_weight(const ir::ModuleCall& call, const QConfig& qconfig) {
  if (!call.embedding) return ir::weighted_of(call) != nullptr;
  return resolve(qconfig.weight).qscheme == c10::kPerChannelAffineFloatQParams;
}

}  // namespace

SwappedLayers swap_for_training(ir::Model& gm, const QConfigMapping& mapping, const BackendConfig& backend) {
  SwappedLayers result{.mapping = with_training_types(mapping, backend)};
  const auto decisions = match::find_qconfigs(gm, without_patterns(mapping));
  for (const ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!ir::is_module_call(node) || !decisions.at(node).qconfig) continue;
    ir::ModuleCall& call = ir::call_of(gm, node);
    const BackendPatternConfig* row = row_to_train(backend, call.type);
    if (row == nullptr || !trains_weight(call, *decisions.at(node).qconfig)) continue;
    call.type = *row->qat_module;
    result.qconfigs.emplace(call.path, *decisions.at(node).qconfig);
  }
  return result;
}

}  // namespace tsq::passes
