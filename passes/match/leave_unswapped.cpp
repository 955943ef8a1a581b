// Layers for which the table has no reference module stay float, and nothing around them is rounded.

#include "match/root_modules.h"
#include "passes/match/matches.h"
#include "passes/match/passes.h"

namespace tsq::passes {

bool leave_unswapped(ir::Model& model, const PassContext& context) {
  bool changed = false;
  for (ir::Match& match : model.matches) {
    if (match.root == nullptr || !ir::is_module_call(match.root)) continue;
    const ir::ModuleCall& call = ir::call_of(model, match.root);
    if (ir::is_opaque(call) || !match::lacks_reference_module(context.table, call)) continue;
    leave_match_float(model, match, ir::Reason::NoReferenceModule, call.type.name);
    changed = true;
  }
  remove_empty_matches(model);
  return changed;
}

}  // namespace tsq::passes
