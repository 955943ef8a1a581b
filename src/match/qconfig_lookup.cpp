#include "match/qconfig_lookup.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/entries.h"
#include "ir/analysis.h"

namespace tsq::match {
namespace {

/// B-16: a fused class takes the object type entry of its first member.
QConfigMapping with_fused_types(const ir::Model& model, QConfigMapping mapping) {
  for (const ir::ModuleCall& call : model.calls) {
    if (call.members.empty()) continue;
    const auto* entry = find_entry(mapping.object_type_qconfigs(), call.members.front().type);
    if (entry != nullptr && entry->second) mapping.set_object_type(call.type, MaybeQConfig(entry->second));
  }
  return mapping;
}

std::string parent_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? std::string() : path.substr(0, dot);
}

/// The uses of a target within a module, for the (module name, object type, order) level (B-08).
using OrderCounts = std::map<std::pair<std::string, std::string_view>, int>;

/// The classes of modules that FX would not look into, by path.
using OpenedModules = std::map<std::string, Symbol>;

OpenedModules opened_modules(const ir::Model& model) {
  OpenedModules opened;
  for (const ir::Scope& scope : model.scopes) {
    if (scope.is_opened) opened.emplace(scope.path, scope.type);
  }
  return opened;
}

/// Those around what is at `path`, or there.
std::vector<std::pair<std::string, Symbol>> opened_around(const OpenedModules& opened, std::string path) {
  std::vector<std::pair<std::string, Symbol>> around;
  while (!opened.empty() && !path.empty()) {
    if (const auto found = opened.find(path); found != opened.end()) around.push_back(*found);
    path = parent_of(path);
  }
  std::ranges::reverse(around);
  return around;
}

QConfigQuery query_for(const ir::Model& model, const ir::Node* node, const std::vector<Symbol>& targets,
                       OrderCounts& counts) {
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(model, node);
    const std::string parent = parent_of(call.path);
    const Symbol type = ir::root_of(call).type;
    return {.targets = targets,
            .is_module = true,
            .module_path = call.path,
            .parent_path = parent,
            .order_type = type,
            .order_index = counts[{parent, type.name}]++};
  }
  const ir::Scope& scope = ir::scope_of(model, node);
  return {.targets = targets,
          .module_path = scope.path,
          .module_type = scope.type,
          .parent_path = scope.path,
          .order_index = targets.empty() ? -1 : counts[{scope.path, targets.front().name}]++};
}

}  // namespace

std::vector<std::pair<const ir::Node*, QConfigQuery>> qconfig_queries(const ir::Model& model) {
  std::vector<std::pair<const ir::Node*, QConfigQuery>> queries;
  OrderCounts counts;
  const OpenedModules opened = opened_modules(model);
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() == c10::prim::Constant || ir::is_observer(node)) continue;
    QConfigQuery query = query_for(model, node, ir::targets(model, node), counts);
    query.opened = opened_around(opened, query.module_path);
    queries.emplace_back(node, std::move(query));
  }
  return queries;
}

std::unordered_map<const ir::Node*, QConfigDecision> find_qconfigs(const ir::Model& model,
                                                                   const QConfigMapping& user_mapping) {
  const QConfigMapping mapping = with_fused_types(model, user_mapping);
  std::unordered_map<const ir::Node*, QConfigDecision> decisions;
  for (const auto& [node, query] : qconfig_queries(model)) decisions[node] = find_qconfig(mapping, query);
  return decisions;
}

}  // namespace tsq::match
