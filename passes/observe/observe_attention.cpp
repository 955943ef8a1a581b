// What the attention of a fused program reads as bytes is observed in front of it, parts of a tensor each by
// themselves: values have a smaller range than queries and keys.
//   q, k, v = chunk(observer(linear(x))); matmul(q, k)   becomes   …; matmul(observer1(q), observer2(k))

#include <array>
#include <optional>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "observers/observer_module.h"
#include "operators/attention.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

/// The observer that has seen an operand.
struct Origin {
  const Node* observer{};
  bool is_part{false};  ///< it has seen more than that
};

/// Empty for operators that do more than to move values.
std::optional<operators::Values> movement_of(const Model& model, const Node* node) {
  if (node->kind() == c10::prim::ListUnpack) return operators::Values::Selected;
  const auto* traits = operators::traits_of(model, node);
  return operators::moves_values(traits) && !ir::operands(node).empty() ? std::optional(traits->values)
                                                                        : std::nullopt;
}

/// Observers in front of operators that only move values may be one.
Origin origin_of(const Model& model, const Value* operand) {
  Origin origin;
  bool is_part = false;
  for (const Node* node = operand->node();; node = ir::operands(node).front()->node()) {
    if (ir::is_observer(node)) {
      const bool is_first = origin.observer == nullptr;
      if (!is_first && ir::observer_index(node) != ir::observer_index(origin.observer)) return origin;
      if (is_first) origin.observer = node;
      origin.is_part = is_part;
      continue;
    }
    const auto movement = movement_of(model, node);
    if (!movement) return origin;
    is_part = is_part || *movement == operators::Values::Selected;
  }
}

bool finds_bytes(const ObserverSpec& spec) {
  const ResolvedObserver resolved = resolve(spec);
  return resolved.dtype == c10::ScalarType::QUInt8 && !resolved.is_dynamic && finds_qparams(spec);
}

bool observe_operand(Model& model, const torch::jit::Use& use) {
  Value* operand = use.user->input(use.offset);
  const Origin origin = origin_of(model, operand);
  if (origin.observer == nullptr || (!origin.is_part && ir::is_observer(operand->node()))) return false;
  const ir::ObserverEntry& entry = ir::observer_of(model, origin.observer);
  if (!finds_bytes(entry.spec)) return false;
  const std::size_t index =
      origin.is_part ? new_observer(model, entry.spec, entry.layer) : ir::observer_index(origin.observer);
  Node* observer = insert_observer_before(model, before_observers(operand), index, use.user);
  use.user->replaceInput(use.offset, observer->output());
  return true;
}

}  // namespace

bool observe_attention(Model& model, const PassContext& /*context*/) {
  return change_each(operators::attentions(model), [&](const operators::Attention& attention) {
    const std::array uses{attention.query, attention.key, attention.value};
    return change_each(uses, [&](const torch::jit::Use& use) { return observe_operand(model, use); });
  });
}

}  // namespace tsq::passes
