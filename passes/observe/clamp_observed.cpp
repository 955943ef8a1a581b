// What an activation takes for its bounds costs no codes: the observer in front of it sees values clamped to
// where they differ, and quantizing cuts off the rest.
//   conv → observer → hardswish   is calibrated as   conv → clamp(-3) → observer → hardswish

#include <algorithm>
#include <array>
#include <optional>

#include "ir/edit.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;

/// An activation that returns the same for all values below `lowest`, and for all above `highest`.
struct Saturating {
  std::string_view name;
  double lowest;
  std::optional<double> highest{};
};
constexpr std::array kSaturating{
    Saturating{"torch.nn.Hardswish", -3},      Saturating{"torch.nn.functional.hardswish", -3},
    Saturating{"aten::hardswish", -3},         Saturating{"aten::hardswish_", -3},
    Saturating{"torch.nn.Hardsigmoid", -3, 3}, Saturating{"torch.nn.functional.hardsigmoid", -3, 3},
    Saturating{"aten::hardsigmoid", -3, 3},    Saturating{"aten::hardsigmoid_", -3, 3},
};

/// By PyTorch's name, or by the operator's own.
const Saturating* saturating(const GraphModule& gm, const Node* node) {
  const auto named = [](std::string_view name) {
    const auto* const found = std::ranges::find(kSaturating, name, &Saturating::name);
    return found == kSaturating.end() ? nullptr : found;
  };
  for (const Symbol& target : ir::targets(gm, node)) {
    if (const Saturating* found = named(target.name)) return found;
  }
  return named(node->kind().toQualString());
}

/// The activation that reads what an observer returns, alone but for other observers; null where there is
/// none.
const Saturating* activation_behind(const GraphModule& gm, const Node* observer) {
  if (!ir::is_observer(observer)) return nullptr;
  const Node* only = nullptr;
  for (const Node* reader : ir::users(observer->output())) {
    if (ir::is_observer(reader)) continue;
    if (only != nullptr) return nullptr;
    only = reader;
  }
  return only == nullptr ? nullptr : saturating(gm, only);
}

}  // namespace

void clamp_observed(GraphModule& gm) {
  for (Node* observer : ir::nodes_in_order(*gm.graph)) {
    const Saturating* activation = activation_behind(gm, observer);
    if (activation == nullptr || observer->input(0)->uses().size() != 1) continue;
    const auto constant = [&](const c10::IValue& value) { return ir::constant_before(gm, observer, value); };
    observer->replaceInput(
        0, ir::insert_before(
               gm, observer, "aten::clamp",
               {observer->input(0), constant(activation->lowest),
                constant(activation->highest ? c10::IValue(*activation->highest) : c10::IValue())}));
  }
}

void drop_observed_clamps(GraphModule& gm) {
  for (Node* observer : ir::nodes_in_order(*gm.graph)) {
    if (activation_behind(gm, observer) == nullptr) continue;
    Node* clamp = observer->input(0)->node();
    if (clamp->kind() != c10::aten::clamp || ir::state_of(gm, clamp) != nullptr) continue;
    clamp->output()->replaceAllUsesWith(clamp->input(0));
    clamp->destroy();
  }
}

}  // namespace tsq::passes
