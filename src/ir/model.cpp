#include "ir/model.h"

#include <utility>

#include "ir/methods.h"
#include "ir/reasons.h"

namespace tsq::ir {
namespace {

const c10::Symbol kCallAttribute = c10::Symbol::attr("tsq_call");
const c10::Symbol kObserverAttribute = c10::Symbol::attr("tsq_observer");
const c10::Symbol kRecordAttribute = c10::Symbol::attr("tsq_record");
const c10::Symbol kScopeAttribute = c10::Symbol::attr("tsq_scope");

}  // namespace

const c10::Symbol kModuleKind = c10::Symbol::fromQualString("prim::tsq_module");
const c10::Symbol kObserverKind = c10::Symbol::fromQualString("prim::tsq_observer");

Weighted* weighted_of(ModuleCall& call) { return const_cast<Weighted*>(weighted_of(std::as_const(call))); }
const Weighted* weighted_of(const ModuleCall& call) {
  if (call.weighted) return &*call.weighted;
  return call.members.empty() ? nullptr : weighted_of(call.members.front());
}

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

bool is_module_call(const Node* node) { return node->kind() == kModuleKind; }
bool is_observer(const Node* node) { return node->kind() == kObserverKind; }

bool is_standalone(const Model& model, const Node* node) {
  return is_module_call(node) && call_of(model, node).standalone.has_value();
}

bool is_opaque(const Model& model, const Node* node) {
  return is_module_call(node) && is_opaque(call_of(model, node));
}

bool is_batch_norm(const ModuleCall& call) { return call.type.name.starts_with("torch.nn.BatchNorm"); }
bool is_batch_norm(const Model& model, const Node* node) {
  return is_module_call(node) && is_batch_norm(call_of(model, node));
}

ModuleCall& call_of(Model& model, const Node* node) {
  return model.calls.at(static_cast<std::size_t>(node->i(kCallAttribute)));
}
const ModuleCall& call_of(const Model& model, const Node* node) {
  return model.calls.at(static_cast<std::size_t>(node->i(kCallAttribute)));
}

void set_call(Node* node, std::size_t index) { node->i_(kCallAttribute, static_cast<int64_t>(index)); }

std::size_t observer_index(const Node* node) { return static_cast<std::size_t>(node->i(kObserverAttribute)); }
void set_observer_index(Node* node, std::size_t index) {
  node->i_(kObserverAttribute, static_cast<int64_t>(index));
}

std::optional<std::size_t> scope_index(const Node* node) {
  if (!node->hasAttribute(kScopeAttribute)) return std::nullopt;
  return static_cast<std::size_t>(node->i(kScopeAttribute));
}

const Scope& scope_of(const Model& model, const Node* node) {
  return model.scopes.at(scope_index(node).value_or(0));
}
const std::string& layer_of(const Model& model, const Node* node) {
  return is_module_call(node) ? call_of(model, node).path : scope_of(model, node).path;
}
void set_scope(Node* node, std::size_t index) { node->i_(kScopeAttribute, static_cast<int64_t>(index)); }
void take_scope(Node* to, const Node* from) {
  if (const auto index = scope_index(from)) set_scope(to, *index);
  take_place(to, from);
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
  if (!node->hasAttribute(kRecordAttribute)) return nullptr;
  return &model.records.at(static_cast<std::size_t>(node->i(kRecordAttribute)));
}

NodeRecord& record_for(Model& model, Node* node) {
  if (!node->hasAttribute(kRecordAttribute)) {
    node->i_(kRecordAttribute, static_cast<int64_t>(model.records.size()));
    model.records.emplace_back();
  }
  return *record_of(model, node);
}

void take_record(Node* to, const Node* from) {
  if (from->hasAttribute(kRecordAttribute)) to->i_(kRecordAttribute, from->i(kRecordAttribute));
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
  if (!record.is_reported || !record.decision.quantized) return;
  const Explanation why = explanation_of(reason, detail);
  record.decision.quantized = false;
  record.decision.saturation.clear();
  record.decision.reason = placement == Placement::Reference ? between_roundings(why.reason) : why.reason;
  record.decision.remedy = why.remedy;
}

}  // namespace tsq::ir
