#include "passes/match/matches.h"

#include <vector>

#include "ir/reasons.h"

namespace tsq::passes {

const MaybeQConfig& qconfig_of(const ir::Model& model, const ir::Node* node) {
  static const MaybeQConfig kNone;
  const ir::NodeRecord* record = ir::record_of(model, node);
  return record == nullptr ? kNone : record->lookup.qconfig;
}

void remove_empty_matches(ir::Model& model) {
  std::erase_if(model.matches, [](const ir::Match& match) { return match.nodes.empty(); });
  for (std::size_t i = 0; i < model.matches.size(); ++i) {
    for (ir::Node* node : model.matches[i].nodes) ir::record_for(model, node).match = i;
  }
}

void leave_match_float(ir::Model& model, ir::Match& match, ir::Reason reason, std::string_view detail) {
  const ir::Explanation why = ir::explanation_of(reason, detail);
  // Calibration may show that it is too small for that (drop_output_observers).
  const bool keeps_qconfig = reason == ir::Reason::FloatAfterLayer;
  for (ir::Node* node : match.nodes) {
    ir::NodeRecord& record = ir::record_for(model, node);
    if (!keeps_qconfig) record.lookup.qconfig.reset();
    record.match.reset();
    record.decision.reason = why.reason;
    record.decision.remedy = why.remedy;
    if (record.placement == ir::Placement::Written) continue;
    record.placement = ir::Placement::Float;
    record.reason = reason;
  }
  match.nodes.clear();
}

}  // namespace tsq::passes
