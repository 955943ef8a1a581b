// Entries of the mapping and of the custom config that choose nothing: a misspelt name, a module that was
// fused into another.

#include "match/unmatched_entries.h"
#include "passes/match/passes.h"

namespace tsq::passes {

bool find_unmatched_entries(ir::Model& model, const PassContext& context) {
  model.unmatched_entries = match::unmatched_entries(model, context.source, context.mapping, context.custom);
  return !model.unmatched_entries.empty();
}

}  // namespace tsq::passes
