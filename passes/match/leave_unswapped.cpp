// Layers for which the table has no reference module stay float, and nothing around them is rounded.

#include "passes/placement/leave_unswapped.h"

#include <fmt/format.h>

#include "match/root_modules.h"

namespace tsq::passes {

void leave_unswapped(const ir::Model& gm, const BackendConfig& backend, MatchTable& table) {
  for (Match& match : table.matches) {
    if (match.root == nullptr || !ir::is_module_call(match.root)) continue;
    const ir::ModuleCall& call = ir::call_of(gm, match.root);
    if (call.standalone || !match::lacks_reference_module(backend, call)) continue;
    for (const ir::Node* node : match.nodes) {
      table.qconfig_of[node].qconfig.reset();
      table.left_float[node] = fmt::format("the table has no reference module for {}", call.type.name);
      table.match_of.erase(node);
    }
    match.nodes.clear();
  }
  remove_empty_matches(table);
}

}  // namespace tsq::passes
