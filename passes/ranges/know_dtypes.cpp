// Casts of parameters to the dtype of a value that calibration has seen: what they make is a constant then.
//   linear(y, to(w, dtype(x))), x was float32   →   linear(y, to(w, float32))
//   linear(y, type_as(w, x))                    →   linear(y, to(w, float32))

#include <unordered_set>
#include <vector>

#include "ir/edit.h"
#include "observers/observer_module.h"
#include "operators/constant_expressions.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/ranges/passes.h"

namespace tsq::passes {
namespace {

/// What the observers of a model say of the dtypes of its values.
class SeenDtypes {
 public:
  explicit SeenDtypes(const Model& model) : model_(model) {
    for (const Node* node : ir::nodes_in_order(*model.graph)) {
      if (ir::is_observer(node) && saw_floats(ir::observer_of(model, node)))
        floats_.insert(before_observers(node->input(0)));
    }
  }

  /// Whether a value was float32 in all samples, or has the dtype of one that was.
  [[nodiscard]] bool is_float(const Value* value) const {
    for (value = before_observers(value); !floats_.contains(value);
         value = before_observers(ir::operands(value->node()).front())) {
      const bool keeps = operators::has(operators::traits_of(model_, value->node()), operators::KeepsDtype);
      if (!keeps || ir::operands(value->node()).empty()) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] static bool saw_floats(const ir::ObserverEntry& entry) {
    const Module& observer = entry.module.value();
    return finds_qparams(entry.spec) && !resolve(entry.spec).is_dynamic &&
           !saw_data(make_observer(entry.spec)) && saw_data(observer) && !saw_other_dtype(observer);
  }

  const Model& model_;
  std::unordered_set<const Value*> floats_{};
};

/// The value whose dtype a cast takes; null for other nodes.
const Value* dtype_giver(const Node* node) {
  const bool is_cast = node->kind() == c10::aten::type_as || node->kind() == c10::aten::to;
  return is_cast && node->inputs().size() > 1 && ir::holds_tensor(node->input(1)) ? node->input(1) : nullptr;
}

}  // namespace

bool know_dtypes(Model& model, const PassContext& /*context*/) {
  const SeenDtypes seen(model);
  const operators::ConstantExpressions constants(model);
  std::vector<Node*> dtypes;
  std::vector<Node*> casts;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() == c10::prim::dtype && seen.is_float(node->input(0))) dtypes.push_back(node);
    const Value* giver = dtype_giver(node);
    if (giver != nullptr && constants.value_of(node->input(0)) && seen.is_float(giver)) casts.push_back(node);
  }
  constexpr auto kFloat = static_cast<int64_t>(c10::ScalarType::Float);
  for (Node* node : dtypes) replace_node(node, ir::constant_before(node, kFloat));
  for (Node* node : casts) {
    const ir::Rewriter in_front(model, node);
    const auto constant = [&](const c10::IValue& value) { return in_front.constant(value); };
    replace_node(node, in_front.op("aten::to", {node->input(0), constant(kFloat), constant(false),
                                                constant(false), constant(c10::IValue())}));
  }
  return !dtypes.empty() || !casts.empty();
}

}  // namespace tsq::passes
