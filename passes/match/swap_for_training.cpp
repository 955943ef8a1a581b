// Layers → layers that fake-quantize their weight while they train (torch/ao/quantization/fx/prepare.py,
// _qat_swap_modules).

#include "ir/analysis.h"
#include "match/qconfig_lookup.h"
#include "passes/context/nodes.h"
#include "passes/match/passes.h"
#include "passes/match/training_types.h"

namespace tsq::passes {
namespace {

/// The levels that propagate_qconfig_ reads: get_flattened_qconfig_dict has no others.
QConfigMapping without_patterns(const QConfigMapping& mapping) {
  QConfigMapping result;
  result.set_global(mapping.global_qconfig());
  for (const auto& [type, qconfig] : mapping.object_type_qconfigs()) result.set_object_type(type, qconfig);
  for (const auto& [name, qconfig] : mapping.module_name_qconfigs()) result.set_module_name(name, qconfig);
  return result;
}

bool swap_layers(ir::Model& model, const QConfigMapping& mapping, const BackendConfig& table) {
  const auto decisions = match::find_qconfigs(model, without_patterns(mapping));
  return change_nodes(model, [&](const Node* node) {
    if (!ir::is_module_call(node) || !decisions.at(node).qconfig) return false;
    ir::ModuleCall& call = ir::call_of(model, node);
    const BackendPatternConfig* row = row_to_train(table, call.type);
    if (row == nullptr || !trains_weight(call, *decisions.at(node).qconfig)) return false;
    call.type = *row->qat_module;
    // A layer that is called several times, or that the mapping around has swapped, keeps the first.
    model.trained_qconfigs.emplace(call.path, *decisions.at(node).qconfig);
    return true;
  });
}

}  // namespace

bool swap_around_for_training(ir::Model& model, const PassContext& context) {
  return context.mapping_around && swap_layers(model, *context.mapping_around, context.table);
}

bool swap_for_training(ir::Model& model, const PassContext& context) {
  return swap_layers(model, context.mapping, context.table);
}

}  // namespace tsq::passes
