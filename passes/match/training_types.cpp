#include "passes/match/training_types.h"

#include <algorithm>

namespace tsq::passes {

const BackendPatternConfig* row_to_train(const BackendConfig& table, Symbol type) {
  const auto found = std::ranges::find_if(table.configs(), [&](const BackendPatternConfig& row) {
    return row.qat_module && row.key() == Pattern(type);
  });
  return found == table.configs().end() ? nullptr : &*found;
}

bool trains_weight(const ir::ModuleCall& call, const QConfig& qconfig) {
  if (!call.embedding) return ir::weighted_of(call) != nullptr;
  return resolve(qconfig.weight).qscheme == c10::kPerChannelAffineFloatQParams;
}

QConfigMapping with_training_types(const QConfigMapping& mapping, const BackendConfig& table) {
  QConfigMapping result = mapping;
  for (const auto& [type, qconfig] : mapping.object_type_qconfigs()) {
    const BackendPatternConfig* row = row_to_train(table, type);
    if (row != nullptr) result.set_object_type(*row->qat_module, qconfig);
  }
  return result;
}

}  // namespace tsq::passes
