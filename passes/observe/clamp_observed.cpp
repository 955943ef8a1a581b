// What an activation takes for its bounds costs no codes: the observer in front of it sees values clamped to
// where they differ, and quantizing cuts off the rest.
//   conv → observer → hardswish   is calibrated as   conv → clamp(-3) → observer → hardswish

#include <optional>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {

bool clamp_observed(ir::Model& model, const PassContext& /*context*/) {
  return change_nodes(model, [&](Node* observer) {
    const auto saturation = activation_after(model, observer);
    if (!saturation || observer->input(0)->uses().size() != 1) return false;
    const auto constant = [&](const std::optional<double>& bound) {
      return ir::constant_before(observer, bound ? c10::IValue(*bound) : c10::IValue());
    };
    observer->replaceInput(0, ir::insert_before(observer, "aten::clamp",
                                                {observer->input(0), constant(saturation->lowest),
                                                 constant(saturation->highest)}));
    return true;
  });
}

}  // namespace tsq::passes
