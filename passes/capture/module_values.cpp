#include "passes/capture/module_values.h"

#include <map>
#include <ranges>
#include <utility>

#include "ir/analysis.h"
#include "passes/context/names.h"

namespace tsq::passes {

void forget_module_values(Capturing& state, ir::Graph& graph) {
  state.owners.clear();
  state.owners[graph.inputs().at(0)] = state.source.module;
}

std::optional<Module> module_of(Capturing& state, ir::Value* value) {
  if (const auto found = state.owners.find(value); found != state.owners.end()) return found->second;
  ir::Node* node = value->node();
  if (node->kind() != c10::prim::GetAttr) return std::nullopt;
  const auto owner = module_of(state, node->input(0));
  if (!owner) return std::nullopt;
  const c10::IValue attribute = owner->attr(node->s(c10::attr::name));
  if (!attribute.isModule() || is_replaced(state.source, *owner, node->s(c10::attr::name)))
    return std::nullopt;
  return state.owners[value] = attribute.toModule();
}

bool is_replaced(const CaptureSource& source, const Module& owner, const std::string& name) {
  return source.written.contains(name) &&
         owner.type()->getAttribute(name)->kind() == c10::TypeKind::InterfaceType;
}

void merge_module_reads(Capturing& state, ir::Graph& graph) {
  std::map<std::pair<const Value*, std::string>, Value*> known;
  for (auto each = graph.nodes().begin(); each != graph.nodes().end(); ++each) {
    Node* node = *each;
    if (node->kind() != c10::prim::GetAttr || !node->output()->type()->is_module()) continue;
    if (node->output()->type()->kind() != c10::TypeKind::ClassType) continue;
    const auto [first, is_first] =
        known.try_emplace({node->input(0), node->s(c10::attr::name)}, node->output());
    if (is_first) continue;
    node->output()->replaceAllUsesWith(first->second);
    state.owners.erase(node->output());
    each.destroyCurrent();
  }
}

void drop_module_values(ir::Graph& graph) {
  for (Node* node : std::views::reverse(ir::nodes_in_order(graph))) {
    const bool is_access =
        node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::ModuleContainerIndex;
    if (is_access && !node->output()->hasUses()) node->destroy();
  }
}

}  // namespace tsq::passes
