// Weights and biases that a model casts where it uses them: the file holds what the cast makes, and what it
// is made of no more. A layer whose bias is known as well as its weight has a place in a fused program.
//   linear(x, observer(to(w, float32)), to(b, float32))   →   linear(x, observer(w'), b'),
//   w' = to(w, float32), b' = to(b, float32)

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor_memory.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/constant_expressions.h"
#include "operators/folded_constants.h"
#include "passes/context/nodes.h"
#include "passes/convert/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

/// Whether a node is F.linear, F.conv* or F.conv_transpose* in int8.
bool is_int8_function(const Model& model, const Node* node) {
  return is_in_int8(ir::placement_of(model, node)) && is_functional_layer(model, node) &&
         node->inputs().size() >= 2;
}

/// What the rounded weight of such a function is made of; null where it is not rounded.
Value* observed_weight(Node* function) {
  Value* weight = function->input(1);
  Value* made_of = before_observers(weight);
  return made_of != weight ? made_of : nullptr;
}

/// Null where it has none.
Value* bias_of(Node* function) {
  constexpr std::size_t kBias = 2;
  const bool has_bias = function->inputs().size() > kBias && ir::holds_tensor(function->input(kBias));
  return has_bias ? function->input(kBias) : nullptr;
}

/// Names of attributes, one for all that hold the same memory: the weight of two layers may be two
/// attributes.
class NamesByMemory {
 public:
  explicit NamesByMemory(const ir::Attributes& attributes) : attributes_(attributes) {
    for (const ir::Attribute& each : attributes) {
      if (const void* memory = memory_of(each.value)) first_.try_emplace(memory, each.name);
    }
  }

  [[nodiscard]] std::vector<std::string> of(std::vector<std::string> names) const {
    for (std::string& name : names) {
      const auto first = first_.find(memory_of(attributes_.attr(name)));
      if (first != first_.end()) name = first->second;
    }
    std::ranges::sort(names);
    const auto repeated = std::ranges::unique(names);
    names.erase(repeated.begin(), repeated.end());
    return names;
  }

 private:
  /// Null where there is none.
  static const void* memory_of(const c10::IValue& value) {
    return value.isTensor() ? tsq::memory_of(value.toTensor()) : nullptr;
  }

  const ir::Attributes& attributes_;
  std::map<const void*, std::string> first_{};
};

/// Makes attributes of what layers compute from attributes alone.
class CastFolding {
 public:
  explicit CastFolding(Model& model)
      : model_(model), constants_(model), folded_(model), names_(model.attributes) {}

  /// Whether a value has become one; null: no.
  bool fold(Value* value) {
    if (value == nullptr || ir::held_tensor(model_, value).defined()) return false;
    const auto known = constants_.value_of(value);
    if (!known || !known->isTensor() || known->toTensor().scalar_type() != c10::ScalarType::Float)
      return false;
    folded_.replace(value, names_.of(constants_.attributes_of(value)), known->toTensor());
    return true;
  }

 private:
  Model& model_;
  operators::ConstantExpressions constants_;
  operators::FoldedConstants folded_;
  NamesByMemory names_;
};

}  // namespace

bool fold_cast_weights(Model& model, const PassContext& /*context*/) {
  CastFolding folding(model);
  const bool has_changed = change_nodes(model, [&](Node* node) {
    if (!is_int8_function(model, node)) return false;
    const bool has_weight = folding.fold(observed_weight(node));
    return folding.fold(bias_of(node)) || has_weight;
  });
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
