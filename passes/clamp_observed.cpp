// What an activation takes for its bounds costs no codes: the observer in front of it sees values clamped to
// where they differ, and quantizing cuts off the rest.
//   conv → observer → hardswish   is calibrated as   conv → clamp(-3) → observer → hardswish

#include <algorithm>
#include <array>
#include <optional>

#include "modules/kernel_arguments.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;

/// An activation that gives the same for all values below `lowest`, and for all above `highest`.
struct Saturating {
  std::string_view name;
  double lowest;
  std::optional<double> highest{};
};
constexpr std::array kSaturating{
    Saturating{"torch.nn.Hardswish", -3},      Saturating{"torch.nn.functional.hardswish", -3},
    Saturating{"torch.nn.Hardsigmoid", -3, 3}, Saturating{"torch.nn.functional.hardsigmoid", -3, 3},
    Saturating{"hardsigmoid", -3, 3},
};

const Saturating* saturating(const GraphModule& gm, const Node* node) {
  for (const Symbol& target : ir::targets(gm, node)) {
    const auto* const found = std::ranges::find(kSaturating, target.name, &Saturating::name);
    if (found != kSaturating.end()) return found;
  }
  return nullptr;
}

/// The activation that alone reads what an observer gives; null where there is none.
const Saturating* activation_behind(const GraphModule& gm, const Node* observer) {
  if (!ir::is_observer(observer)) return nullptr;
  const Node* reader = ir::only_reader(observer);
  return reader == nullptr ? nullptr : saturating(gm, reader);
}

}  // namespace

void clamp_observed(GraphModule& gm) {
  for (Node* observer : ir::nodes_in_order(*gm.graph)) {
    const Saturating* activation = activation_behind(gm, observer);
    if (activation == nullptr || observer->input(0)->uses().size() != 1) continue;
    const auto constant = [&](const c10::IValue& value) {
      return modules::constant_before(gm, observer, value);
    };
    observer->replaceInput(
        0, modules::insert_before(
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
