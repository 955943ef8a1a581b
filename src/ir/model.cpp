#include "ir/model.h"

#include <utility>

#include "ir/reasons.h"

namespace tsq::ir {

c10::TypePtr self_type() {
  static const c10::ClassTypePtr type =
      c10::ClassType::create(c10::QualifiedName("__torch__.tsq.Attributes"), {}, /*is_module=*/true);
  return type;
}

Model Model::copy() const {
  Model result = *this;
  result.graph = graph->copy();
  for (Method& method : result.methods) {
    if (method.graph) method.graph = method.graph->copy();
  }
  return result;
}

bool is_standalone(const Model& model, const Node* node) {
  return is_module_call(node) && call_of(model, node).standalone.has_value();
}

bool is_opaque(const Model& model, const Node* node) {
  return is_module_call(node) && is_opaque(call_of(model, node));
}

bool is_batch_norm(const Model& model, const Node* node) {
  return is_module_call(node) && is_batch_norm(call_of(model, node));
}

ModuleCall& call_of(Model& model, const Node* node) { return model.calls.at(call_index(node)); }
const ModuleCall& call_of(const Model& model, const Node* node) { return model.calls.at(call_index(node)); }

const Scope& scope_of(const Model& model, const Node* node) {
  return model.scopes.at(scope_index(node).value_or(0));
}
const std::string& layer_of(const Model& model, const Node* node) {
  return is_module_call(node) ? call_of(model, node).path : scope_of(model, node).path;
}

ObserverEntry& observer_of(Model& model, const Node* node) {
  return model.observers.at(observer_index(node));
}
const ObserverEntry& observer_of(const Model& model, const Node* node) {
  return model.observers.at(observer_index(node));
}

NodeRecord* record_of(Model& model, const Node* node) {
  return const_cast<NodeRecord*>(record_of(std::as_const(model), node));
}
const NodeRecord* record_of(const Model& model, const Node* node) {
  const auto index = record_index(node);
  return index ? &model.records.at(*index) : nullptr;
}

NodeRecord& record_for(Model& model, Node* node) {
  if (!record_index(node)) {
    set_record(node, model.records.size());
    model.records.emplace_back();
  }
  return *record_of(model, node);
}

Decision* decision_of(Model& model, const Node* node) {
  return const_cast<Decision*>(decision_of(std::as_const(model), node));
}
const Decision* decision_of(const Model& model, const Node* node) {
  const NodeRecord* record = record_of(model, node);
  return record != nullptr && record->is_reported ? &record->decision : nullptr;
}

const QConfig* observed_qconfig(const Model& model, const Node* node) {
  const NodeRecord* record = record_of(model, node);
  return record != nullptr && record->observed && record->lookup.qconfig ? &*record->lookup.qconfig : nullptr;
}

Placement placement_of(const Model& model, const Node* node) {
  const NodeRecord* record = record_of(model, node);
  return record == nullptr ? Placement::Undecided : record->placement;
}

bool stays_float(const Model& model, const Node* node) {
  const Placement placement = placement_of(model, node);
  return placement == Placement::Reference || placement == Placement::Written;
}

void leave_float(Model& model, Node* node, Placement placement, Reason reason, std::string_view detail) {
  NodeRecord& record = record_for(model, node);
  record.placement = placement;
  record.reason = reason;
  record.detail = detail;
  if (!record.is_reported || !record.decision.quantized) return;
  const Explanation why = explanation_of(reason, detail);
  record.decision.quantized = false;
  record.decision.saturation.clear();
  record.decision.reason = placement == Placement::Reference ? between_roundings(why.reason) : why.reason;
  record.decision.remedy = why.remedy;
}

}  // namespace tsq::ir
