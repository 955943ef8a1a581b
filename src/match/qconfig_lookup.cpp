#include "match/qconfig_lookup.h"

#include <map>
#include <utility>

#include "ir/analysis.h"

namespace tsq::match {
namespace {

/// B-16: a fused class takes the object type entry of its first member.
QConfigMapping with_fused_types(const ir::Model& model, QConfigMapping mapping) {
  for (const ir::ModuleCall& call : model.calls) {
    if (call.members.empty()) continue;
    for (const auto& [type, qconfig] : mapping.object_type_qconfigs()) {
      if (type != call.members.front().type || !qconfig) continue;
      mapping.set_object_type(call.type, MaybeQConfig(qconfig));
      break;
    }
  }
  return mapping;
}

std::string parent_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? std::string() : path.substr(0, dot);
}

/// Counts uses of a target within a module, for the (module name, object type, order) level (B-08).
class OrderCounter {
 public:
  int next(const std::string& parent, Symbol target) { return counts_[{parent, std::string(target.name)}]++; }

 private:
  std::map<std::pair<std::string, std::string>, int> counts_;
};

QConfigQuery query_for(const ir::Model& model, const ir::Node* node, const std::vector<Symbol>& targets,
                       OrderCounter& order) {
  QConfigQuery query;
  query.targets = targets;
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(model, node);
    query.is_module = true;
    query.module_path = call.path;
    query.parent_path = parent_of(call.path);
    query.order_type = call.members.empty() ? call.type : call.members.front().type;
    query.order_index = order.next(query.parent_path, *query.order_type);
    return query;
  }
  const ir::Scope& scope = ir::scope_of(model, node);
  query.module_path = scope.path;
  query.module_type = scope.type;
  query.parent_path = scope.path;
  if (!targets.empty()) query.order_index = order.next(scope.path, targets.front());
  return query;
}

}  // namespace

std::vector<std::pair<const ir::Node*, QConfigQuery>> qconfig_queries(const ir::Model& model) {
  std::vector<std::pair<const ir::Node*, QConfigQuery>> queries;
  OrderCounter order;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() == c10::prim::Constant || ir::is_observer(node)) continue;
    queries.emplace_back(node, query_for(model, node, ir::targets(model, node), order));
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
