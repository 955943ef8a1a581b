// Weights that a model casts where it uses them: the file holds the bytes of the cast weight, and the weight
// as it was no more.
//   linear(x, observer(to(w, float32)))   →   linear(x, observer(w')), w' = to(w, float32)

#include <algorithm>
#include <array>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/constant_expressions.h"
#include "operators/folded_constants.h"
#include "passes/context/nodes.h"
#include "passes/convert/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

/// What the rounded weight of a function in int8 is made of, where that is no attribute; null for others.
Value* computed_weight(const Model& model, const Node* node) {
  constexpr std::array kInt8{ir::Placement::Int8, ir::Placement::Int8FloatOut};
  const bool is_int8 = std::ranges::find(kInt8, ir::placement_of(model, node)) != kInt8.end();
  if (!is_int8 || !is_functional_layer(model, node) || node->inputs().size() < 2) return nullptr;
  Value* weight = const_cast<Node*>(node)->input(1);
  Value* made_of = before_observers(weight);
  return made_of != weight && !ir::held_tensor(model, made_of).defined() ? made_of : nullptr;
}

}  // namespace

bool fold_cast_weights(Model& model, const PassContext& /*context*/) {
  const operators::ConstantExpressions constants(model);
  operators::FoldedConstants folded(model);
  const bool has_changed = change_nodes(model, [&](const Node* node) {
    Value* weight = computed_weight(model, node);
    const auto value = weight == nullptr ? std::nullopt : constants.value_of(weight);
    if (!value || !value->isTensor() || value->toTensor().scalar_type() != c10::ScalarType::Float)
      return false;
    folded.replace(weight, constants.attributes_of(weight), value->toTensor());
    return true;
  });
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
