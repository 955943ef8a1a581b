// Methods beside forward that call layers become blocks of forward's graph: passes see one model.

#include "ir/methods.h"
#include "passes/match/passes.h"

namespace tsq::passes {

bool join_methods(ir::Model& model, const PassContext& /*context*/) {
  ir::join_methods(model);
  return ir::methods_node(model) != nullptr;
}

}  // namespace tsq::passes
