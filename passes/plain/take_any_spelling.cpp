// A row of the table holds for every spelling of an operator.

#include <utility>

#include "passes/plain/passes.h"

namespace tsq::passes {

bool take_any_spelling(ir::Model& model, const PassContext& /*context*/) {
  return !std::exchange(model.any_spelling, true);
}

}  // namespace tsq::passes
