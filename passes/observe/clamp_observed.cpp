// What an activation takes for its bounds costs no codes: the observer in front of it sees values clamped to
// where they differ, and quantizing cuts off the rest.
//   conv → observer → hardswish   is calibrated as   conv → clamp(-3) → observer → hardswish

#include <optional>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/traits.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;

/// Where the activation saturates that reads what an observer returns, alone but for other observers; empty
/// where there is none.
std::optional<operators::Saturation> activation_after(const Model& gm, const Node* observer) {
  if (!ir::is_observer(observer)) return std::nullopt;
  const Node* only = nullptr;
  for (const Node* reader : ir::users(observer->output())) {
    if (ir::is_observer(reader)) continue;
    if (only != nullptr) return std::nullopt;
    only = reader;
  }
  const auto* const row = only == nullptr ? nullptr : operators::traits_of(gm, only);
  return row == nullptr ? std::nullopt : row->saturates;
}

}  // namespace

void clamp_observed(Model& gm) {
  for (Node* observer : ir::nodes_in_order(*gm.graph)) {
    const auto saturation = activation_after(gm, observer);
    if (!saturation || observer->input(0)->uses().size() != 1) continue;
    const auto constant = [&](const std::optional<double>& bound) {
      return ir::constant_before(gm, observer, bound ? c10::IValue(*bound) : c10::IValue());
    };
    observer->replaceInput(0, ir::insert_before(gm, observer, "aten::clamp",
                                                {observer->input(0), constant(saturation->lowest),
                                                 constant(saturation->highest)}));
  }
}

void drop_observed_clamps(Model& gm) {
  for (Node* observer : ir::nodes_in_order(*gm.graph)) {
    if (!activation_after(gm, observer)) continue;
    Node* clamp = observer->input(0)->node();
    if (clamp->kind() != c10::aten::clamp || ir::state_of(gm, clamp) != nullptr) continue;
    clamp->output()->replaceAllUsesWith(clamp->input(0));
    clamp->destroy();
  }
}

}  // namespace tsq::passes
