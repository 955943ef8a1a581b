// Layers for which the table has no reference module stay float, and so do layers whose weight or bias no
// reference module takes; nothing around them is rounded.

#include "match/root_modules.h"
#include "operators/weighted.h"
#include "passes/match/matches.h"
#include "passes/match/passes.h"

namespace tsq::passes {
namespace {

/// Whether a layer had no parameters to take out of its module. One that gets an output_size had.
bool has_unsound_parameters(const ir::ModuleCall& layer) {
  return !layer.weighted && layer.module && operators::is_weighted(layer.type) &&
         !operators::weighted_parameters(layer.type, *layer.module);
}

}  // namespace

bool leave_unswapped(ir::Model& model, const PassContext& context) {
  bool changed = false;
  for (ir::Match& match : model.matches) {
    if (match.root == nullptr || !ir::is_module_call(match.root)) continue;
    const ir::ModuleCall& call = ir::call_of(model, match.root);
    if (ir::is_opaque(call)) continue;
    if (has_unsound_parameters(ir::root_of(call))) {
      leave_match_float(model, match, ir::Reason::NoKernel,
                        "its parameters cannot be told, or are empty, sparse, complex or of other shapes "
                        "than its class has");
    } else if (match::lacks_reference_module(context.table, call)) {
      leave_match_float(model, match, ir::Reason::NoReferenceModule, call.type.name);
    } else {
      continue;
    }
    changed = true;
  }
  remove_empty_matches(model);
  return changed;
}

}  // namespace tsq::passes
