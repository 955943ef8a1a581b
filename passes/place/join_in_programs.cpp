// A fused program rounds once after what one primitive computes: a layer, and functions, a sum or a product
// after it.
//   conv → observer → add → observer → relu → observer   becomes   conv → add → relu → observer

#include <array>
#include <unordered_set>

#include "ir/analysis.h"
#include "ir/live_nodes.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

/// What primitives do to a layer's result.
bool is_function(const Model& model, const Node* node) {
  return operators::is_one_of(model, node,
                              {"relu", "relu6", "clamp", "hardtanh", "leaky_relu", "elu", "hardswish",
                               "hardsigmoid", "sigmoid", "silu", "tanh", "gelu"});
}
bool is_of_two(const Model& model, const Node* node) {
  return operators::is_one_of(model, node, {"add", "mul"});
}

class Joining {
 public:
  Joining(Model& model, const PassContext& context) : model_(model), context_(context) {}

  bool run() {
    for (Node* node : ir::LiveNodes(*model_.graph)) join(node);
    return has_changed_;
  }

 private:
  void join(Node* node) {
    if (node->outputs().size() != 1) return;
    const bool is_layer = ir::is_module_call(node) ? int8_layer(model_, context_, node) != nullptr
                                                   : is_functional_layer(model_, node);
    if (is_layer) joined_.insert(node);
    if (is_layer || (!is_function(model_, node) && !is_of_two(model_, node))) return;
    Value* last = nullptr;
    for (Value* operand : ir::operands(node)) {
      const Node* layer = layer_of(operand);
      if (layer != nullptr && (last == nullptr || layer_of(last)->isBefore(layer))) last = operand;
    }
    if (last == nullptr) return;
    joined_.insert(node);
    if (!is_static_rounding(model_, last->node())) return;
    bypass(last->node());
    has_changed_ = true;
  }

  /// The end of a joined chain that a value comes from, where nobody else reads it, rounded or not.
  [[nodiscard]] const Node* layer_of(const Value* operand) const {
    const Node* node = operand->node();
    if (operand->uses().size() != 1) return nullptr;
    if (is_static_rounding(model_, node)) node = node->input(0)->node();
    return joined_.contains(node) && node->output()->uses().size() == 1 ? node : nullptr;
  }

  Model& model_;
  const PassContext& context_;
  std::unordered_set<const Node*> joined_{};
  bool has_changed_{false};
};

}  // namespace

bool join_in_programs(Model& model, const PassContext& context) { return Joining(model, context).run(); }

}  // namespace tsq::passes
