// Activations that are written out after a layer become one operator.
//   x * sigmoid(x)                  →   silu(x)
//   x * clamp(x + 3, 0, 6) / 6      →   hardswish(x)
//   x * (1 + erf(x / sqrt(2))) / 2  →   gelu(x), which stays float
// Exporters to ONNX and model files of other frameworks write them so. Quantizing each part rounds four
// times, quantizing the one operator twice, or once where an engine's kernel does it together with the layer.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/clamp_bounds.h"
#include "operators/functional_weighted.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/written_out.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

class ActivationGathering {
 public:
  explicit ActivationGathering(Model& gm) : gm_(gm) {}

  void run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (Value* of_silu = silu_input(node)) {
        become(gm_, node, c10::aten::silu, {of_silu});
      } else if (Value* of_hardswish = hardswish_input(node)) {
        become(gm_, node, c10::aten::hardswish, {of_hardswish});
      } else if (Value* of_gelu = gelu_input(node)) {
        become(gm_, node, c10::aten::gelu, {of_gelu, ir::constant_before(gm_, node, std::string("none"))});
      }
    }
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  /// x, where a node is x * sigmoid(x); null for others.
  Value* silu_input(const Node* node) const {
    return gated(node, [&](const Value* gate) -> Value* {
      const auto targets = ir::targets(gm_, gate->node());
      const bool is_sigmoid = std::ranges::any_of(targets, [](const Symbol& target) {
        return target.name == "torch.sigmoid" || target.name == "torch.nn.Sigmoid";
      });
      return is_sigmoid ? ir::operands(gate->node()).front() : nullptr;
    });
  }

  /// x, where a node is x * clamp(x + 3, 0, 6) / 6, divided wherever; null for others.
  Value* hardswish_input(const Node* node) const {
    if (const Value* product = sixth(node))
      return gated(product->node(), [&](const Value* gate) { return opened(gate); });
    return gated(node, [&](const Value* gate) -> Value* {
      const Value* clamped = sixth(gate->node());
      return clamped == nullptr ? nullptr : opened(clamped);
    });
  }

  /// x, where a node is x * gate and `gate_input` says that the gate is one of x.
  template <typename GateInput>
  Value* gated(const Node* node, const GateInput& gate_input) const {
    if (node->kind() != c10::aten::mul) return nullptr;
    for (const std::size_t side : {0, 1}) {
      const Value* x = node->input(side);
      const Value* gate = node->input(1 - side);
      if (gate->uses().size() == 1 && is_of_layer(x) && gate_input(gate) == x) return gate_input(gate);
    }
    return nullptr;
  }

  /// x, where a value is clamp(x + 3, 0, 6); null for others.
  Value* opened(const Value* gate) const {
    const auto bounds = operators::clamp_bounds(gm_, gate->node());
    if (!bounds || bounds->lowest != 0 || bounds->highest != 6) return nullptr;
    const Value* sum = ir::operands(gate->node()).front();
    return sum->uses().size() == 1 ? plus_number(gm_, sum->node(), 3) : nullptr;
  }

  /// x, where a node is x * (1 + erf(x / sqrt(2))) / 2, multiplied in whatever order; null for others.
  Value* gelu_input(const Node* node) const {
    Product product;
    take_factors(node, product);
    if (product.values.size() != 2 || !is_near(product.number, 0.5)) return nullptr;
    for (const std::size_t side : {0, 1}) {
      Value* x = product.values[side];
      if (erf_input(product.values[1 - side]) == x) return x;
    }
    return nullptr;
  }

  /// What is multiplied, and by which number.
  struct Product {
    std::vector<Value*> values{};
    double number{1};
  };

  /// Those of a product or of a quotient by a number, and of its factors that nobody else reads; none of
  /// other nodes.
  void take_factors(const Node* node, Product& product) const {
    if (!is_product(node)) return;
    for (const std::size_t side : {0, 1}) {
      const Value* factor = node->input(side);
      if (const auto number = constant_number(gm_, factor)) {
        const bool divides = node->kind() == c10::aten::div && side == 1;
        product.number *= divides ? 1 / *number : *number;
      } else if (factor->uses().size() == 1 && is_product(factor->node())) {
        take_factors(factor->node(), product);
      } else {
        product.values.push_back(const_cast<Value*>(factor));
      }
    }
  }

  bool is_product(const Node* node) const {
    const bool divides = node->kind() == c10::aten::div && node->inputs().size() == 2;
    return node->kind() == c10::aten::mul || (divides && constant_number(gm_, node->input(1)));
  }

  /// x, where a value is 1 + erf(x / sqrt(2)); null for others.
  const Value* erf_input(const Value* value) const {
    const Value* erf = value->uses().size() == 1 ? plus_number(gm_, value->node(), 1) : nullptr;
    if (erf == nullptr || erf->node()->kind() != c10::aten::erf || erf->uses().size() != 1) return nullptr;
    Product scaled;
    take_factors(erf->node()->input(0)->node(), scaled);
    return scaled.values.size() == 1 && is_near(scaled.number, std::numbers::sqrt2 / 2) ? scaled.values[0]
                                                                                        : nullptr;
  }

  /// Exporters write float constants.
  static bool is_near(double number, double meant) { return std::abs(number / meant - 1) < 1e-6; }

  /// What a node divides by six and nobody else reads; null for others.
  const Value* sixth(const Node* node) const {
    if (node->inputs().size() != 2 || node->input(0)->uses().size() != 1) return nullptr;
    const auto by = constant_number(gm_, node->input(1));
    const bool divides = node->kind() == c10::aten::div && by == 6;
    const bool multiplies = node->kind() == c10::aten::mul && by && is_near(*by, 1.0 / 6);
    return divides || multiplies ? node->input(0) : nullptr;
  }

  /// Whether a value comes from a layer or a batch norm: it is of floating point, and the activation may join
  /// the layer.
  bool is_of_layer(const Value* value) const {
    const Node* node = value->node();
    if (ir::is_module_call(node)) {
      const ir::ModuleCall& call = ir::call_of(gm_, node);
      return ir::weighted_of(call) != nullptr || call.type.name.starts_with("torch.nn.BatchNorm");
    }
    return std::ranges::any_of(ir::targets(gm_, node), [](const Symbol& target) {
      return !operators::module_of_functional(target.name).empty();
    });
  }

  Model& gm_;
};

}  // namespace

void gather_activations(Model& gm) { ActivationGathering(gm).run(); }

}  // namespace tsq::passes
