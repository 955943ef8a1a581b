// The report's entries at the time of prepare: what each operator is, what matched it, why it stays float.

#include "passes/observe/explain_observed.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ir/analysis.h"
#include "ir/methods.h"
#include "match/remedy.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/operator_names.h"
#include "passes/observe/target_infos.h"

namespace tsq::passes {
namespace {

std::string source_text(const QConfigDecision& lookup) {
  const std::string_view level = to_string(lookup.source);
  return lookup.key.empty() ? std::string(level) : fmt::format("{} '{}'", level, lookup.key);
}

/// The readers of a value, looked for after its observer.
std::vector<Node*> readers_of(const Value* value) {
  std::vector<Node*> readers;
  for (Node* user : ir::users(value)) {
    if (!ir::is_observer(user)) {
      readers.push_back(user);
      continue;
    }
    for (Node* after : ir::users(user->output())) readers.push_back(after);
  }
  return readers;
}

void note_missed_fusion(const Model& model, const Node* node, Decision& decision) {
  if (!ir::is_module_call(node) || ir::weighted_of(ir::call_of(model, node)) == nullptr) return;
  const auto readers = readers_of(node->output());
  const bool could_fuse = std::ranges::any_of(readers, [&](const Node* reader) {
    const std::string name = ir::display_name(model, reader);
    return name.ends_with("ReLU") || name.ends_with("relu") || name.find("BatchNorm") != std::string::npos;
  });
  if (!could_fuse || readers.size() < 2) return;
  decision.notes.push_back(fmt::format(
      "{} operators read its result, so that the one after it is not fused into it", readers.size()));
}

void note_back_edge(const Node* node, Decision& decision) {
  if (node->outputs().size() != 1) return;
  for (const Node* reader : readers_of(node->output())) {
    const Node* owner = reader->owningBlock()->owningNode();
    if (reader->kind() != c10::prim::Return || owner == nullptr || owner->kind() != c10::prim::Loop) continue;
    decision.notes.emplace_back(
        "its result goes around the loop in float: each turn dequantizes it and quantizes it again");
    return;
  }
}

/// The configs up to the first that takes the pattern, with the refusals of those before it.
void add_dtype_configs(const ir::Match& match, const Findings& findings, Decision& decision) {
  const std::size_t tried = findings.refusals.size() + (findings.is_refused ? 0 : 1);
  for (const DTypeConfig& config : match.row->dtype_configs) {
    if (decision.dtype_configs.size() < tried) decision.dtype_configs.push_back(match::describe(config));
  }
  decision.refusals = findings.refusals;
}

}  // namespace

void ObservationReport::add(Node* node, const Findings& findings) {
  ir::NodeRecord& record = ir::record_for(model_, node);
  Decision& decision = record.decision;
  decision.op = readable_name(model_, node);
  decision.node = node->outputs().empty() ? "" : lasting_name(node->outputs().front(), decision.op);
  decision.layer = ir::layer_of(model_, node);
  decision.method = ir::method_of(node);
  decision.on_tensors = findings.on_tensors;
  if (ir::is_module_call(node)) {
    for (const ir::Scope& part : ir::call_of(model_, node).parts) decision.parts.emplace_back(part.type.name);
  }
  const ir::Match* match = match_of(model_, node);
  const MaybeQConfig& qconfig = record.lookup.qconfig;
  decision.qconfig_source = source_text(record.lookup);
  if (qconfig) decision.qconfig = match::describe(*qconfig);
  if (match != nullptr && !ir::is_opaque(model_, node)) {
    decision.pattern = to_string(match->row->key());
    if (qconfig && findings.on_tensors) add_dtype_configs(*match, findings, decision);
  }
  // What recipe best has left float says why already.
  if (decision.reason.empty()) {
    explain(model_, context_, node, match, findings, record);
  } else if (decision.remedy.empty()) {
    decision.remedy = "nothing, or use --recipe fx";
  }
  note_missed_fusion(model_, node, decision);
  if (decision.quantized) note_back_edge(node, decision);
  record.is_reported = true;
  model_.report_order.push_back(static_cast<std::size_t>(&record - model_.records.data()));
}

void ObservationReport::name_partners() {
  for (std::size_t i = 0; i < model_.matches.size(); ++i) {
    const ir::Match& match = model_.matches[i];
    if (match.row->key().args.empty()) continue;
    std::vector<ir::NodeRecord*> records;  // of those that no later match has claimed
    for (const Node* node : match.nodes) {
      ir::NodeRecord* record = ir::record_of(model_, node);
      if (record != nullptr && record->match == i && record->is_reported) records.push_back(record);
    }
    for (ir::NodeRecord* record : records) {
      for (const ir::NodeRecord* other : records) {
        if (other != record) record->partners.push_back(other->decision.node);
      }
    }
  }
}

/// Numbers, which TorchScript assigns to values without a name, change when a graph is copied: the report
/// needs a name that stays.
std::string ObservationReport::lasting_name(Value* value, std::string_view operator_name) {
  if (value->hasDebugName()) return value->debugName();
  const std::string_view base = operator_name.substr(operator_name.find_last_of(".:") + 1);
  // A name that is taken would be taken away from its owner.
  const auto& taken = value->owningGraph()->debugNames();
  std::string name(base);
  int& number = name_numbers_[name];
  while (taken.contains(name)) name = fmt::format("{}.{}", base, ++number);
  return value->setDebugName(name)->debugName();
}

}  // namespace tsq::passes
