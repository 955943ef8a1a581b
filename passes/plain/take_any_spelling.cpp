// A row of the table holds for every spelling of an operator.

#include "passes/plain/passes.h"

namespace tsq::passes {

bool take_any_spelling(ir::Model& model, const PassContext& /*context*/) {
  const bool changed = !model.any_spelling;
  model.any_spelling = true;
  return changed;
}

}  // namespace tsq::passes
