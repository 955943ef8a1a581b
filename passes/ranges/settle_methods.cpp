// What forward has calibrated holds for the same values in other methods.

#include "ir/methods.h"
#include "passes/ranges/passes.h"
#include "passes/ranges/same_values.h"
#include "passes/ranges/settle_unreached.h"

namespace tsq::passes {

bool settle_methods(Model& model, const PassContext& context) {
  if (ir::methods_node(model) == nullptr) return false;
  const bool takes_ranges =
      take_ranges_of_same_values(model, [](const Node* node) { return !ir::method_of(node).empty(); });
  const bool leaves_operators = settle_unreached_methods(model, context);
  return takes_ranges || leaves_operators;
}

}  // namespace tsq::passes
