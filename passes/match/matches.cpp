#include "passes/match/matches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "ir/reasons.h"
#include "match/dtype_check.h"
#include "operators/functional_weighted.h"
#include "torchscript/modules/recurrent.h"

namespace tsq::passes {
namespace {

/// The records of a match's operators, which nothing observes: the match has none any more.
std::vector<ir::NodeRecord*> taken_out(ir::Model& model, ir::Match& match, ir::Reason reason,
                                       std::string_view detail) {
  const ir::Explanation why = ir::explanation_of(reason, detail);
  std::vector<ir::NodeRecord*> records;
  for (ir::Node* node : match.nodes) {
    ir::NodeRecord& record = ir::record_for(model, node);
    record.match.reset();
    record.decision.reason = why.reason;
    record.decision.remedy = why.remedy;
    if (record.placement != ir::Placement::Written) record.reason = reason;
    records.push_back(&record);
  }
  match.nodes.clear();
  return records;
}

}  // namespace

const MaybeQConfig& qconfig_of(const ir::Model& model, const ir::Node* node) {
  static const MaybeQConfig kNone;
  const ir::NodeRecord* record = ir::record_of(model, node);
  return record == nullptr ? kNone : record->lookup.qconfig;
}

bool takes_static(const BackendPatternConfig& row) {
  return std::ranges::any_of(row.dtype_configs, [](const DTypeConfig& config) {
    const auto& dtype = config.input_dtype.dtype;
    return (dtype == c10::ScalarType::QUInt8 || dtype == c10::ScalarType::QInt8) &&
           !config.is_dynamic.value_or(false);
  });
}

bool is_static(const ir::Model& model, const ir::Match& match) {
  if (ir::is_standalone(model, match.root)) return true;
  const MaybeQConfig& qconfig = qconfig_of(model, match.last);
  return qconfig && match::is_static(*qconfig) &&
         (ir::is_opaque(model, match.root) || takes_static(*match.row));
}

bool is_dynamic(const ir::Model& model, const ir::Match& match) {
  const MaybeQConfig& qconfig = qconfig_of(model, match.last);
  return qconfig && match::is_dynamic(*qconfig);
}

bool has_weight(const ir::Model& model, const ir::Match& match) {
  if (ir::is_module_call(match.root)) {
    const ir::ModuleCall& call = ir::call_of(model, match.root);
    return ir::is_opaque(call) || ir::weighted_of(call) != nullptr || torchscript::is_recurrent(call.type);
  }
  return operators::is_functional_layer(model, match.root);
}

void remove_empty_matches(ir::Model& model) {
  std::erase_if(model.matches, [](const ir::Match& match) { return match.nodes.empty(); });
  for (std::size_t i = 0; i < model.matches.size(); ++i) {
    for (ir::Node* node : model.matches[i].nodes) ir::record_for(model, node).match = i;
  }
}

void leave_match_float(ir::Model& model, ir::Match& match, ir::Reason reason, std::string_view detail) {
  for (ir::NodeRecord* record : taken_out(model, match, reason, detail)) {
    if (record->placement != ir::Placement::Written) record->placement = ir::Placement::Float;
    record->lookup.qconfig.reset();
  }
}

void leave_match_unobserved(ir::Model& model, ir::Match& match, ir::Reason reason) {
  for (ir::NodeRecord* record : taken_out(model, match, reason, {}))
    record->unobserved_qconfig = std::exchange(record->lookup.qconfig, std::nullopt);
}

}  // namespace tsq::passes
