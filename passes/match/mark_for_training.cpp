// Layers → layers whose weights are rounded while they train: in recipe best those whose weights convert will
// round, whatever classes the table names for training (QT-104).
//   ConvTranspose2d(x)   →   the same, of a rounded weight

#include <algorithm>

#include "match/dtype_check.h"
#include "match/root_modules.h"
#include "passes/context/nodes.h"
#include "passes/match/passes.h"
#include "passes/match/training_types.h"

namespace tsq::passes {
namespace {

/// Slopes are no weight of the table's, and their kernel takes them rounded all the same.
bool rounds_slopes(const BackendConfig& table, const ir::ModuleCall& call, const QConfig& qconfig) {
  const auto is_row = [&](const BackendPatternConfig& row) { return row.key() == Pattern(call.type); };
  return call.type.name == "torch.nn.PReLU" && call.module && match::is_static(qconfig) &&
         std::ranges::any_of(table.configs(), is_row);
}

bool trains_rounded(const BackendConfig& table, const ir::ModuleCall& call, const QConfig& qconfig) {
  if (call.standalone || qconfig.weight.fake_quantize.empty()) return false;
  return rounds_slopes(table, call, qconfig) ||
         (trains_weight(call, qconfig) && match::takes_quantized_weight(table, call, qconfig));
}

}  // namespace

bool mark_for_training(ir::Model& model, const PassContext& context) {
  return change_nodes(model, [&](const Node* node) {
    const ir::NodeRecord* record = ir::record_of(model, node);
    if (!ir::is_module_call(node) || record == nullptr || !record->lookup.qconfig) return false;
    const ir::ModuleCall& call = ir::call_of(model, node);
    return trains_rounded(context.table, call, *record->lookup.qconfig) &&
           model.trained_qconfigs.emplace(call.path, *record->lookup.qconfig).second;
  });
}

}  // namespace tsq::passes
