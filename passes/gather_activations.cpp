// Activations that are written out behind a layer become one operator.
//   x * sigmoid(x)                  →   silu(x)
//   x * clamp(x + 3, 0, 6) / 6      →   hardswish(x)
// Exporters to ONNX and model files of other frameworks write them so. Quantizing each part rounds four
// times, quantizing the one operator twice, or once where an engine's kernel does it together with the layer.

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <cmath>

#include "modules/clamp_bounds.h"
#include "modules/functional_weighted.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

class Gathering {
 public:
  explicit Gathering(GraphModule& gm) : gm_(gm) {}

  void run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (Value* x = silu_input(node)) {
        replace(node, c10::aten::silu, x);
      } else if (Value* gated = hardswish_input(node)) {
        replace(node, c10::aten::hardswish, gated);
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
    const auto bounds = modules::clamp_bounds(gm_, gate->node());
    if (!bounds || bounds->lowest != 0 || bounds->highest != 6) return nullptr;
    const Value* sum = ir::operands(gate->node()).front();
    const Node* add = sum->node();
    if (add->kind() != c10::aten::add || sum->uses().size() != 1 || number(add->input(1)) != 3)
      return nullptr;
    return add->inputs().size() < 3 || number(add->input(2)) == 1 ? ir::operands(add).front() : nullptr;
  }

  /// What a node divides by six and nobody else reads; null for others.
  const Value* sixth(const Node* node) const {
    if (node->inputs().size() != 2 || node->input(0)->uses().size() != 1) return nullptr;
    const auto by = number(node->input(1));
    const bool divides = node->kind() == c10::aten::div && by == 6;
    const bool multiplies = node->kind() == c10::aten::mul && by && std::abs(*by * 6 - 1) < 1e-6;
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
      return !modules::module_of_functional(target.name).empty();
    });
  }

  /// A number, or a tensor of one that broadcasts to anything.
  std::optional<double> number(const Value* value) const {
    auto constant = torch::jit::toIValue(value);
    if (value->node()->kind() == c10::prim::GetAttr && value->node()->input(0) == gm_.graph->inputs().at(0))
      constant = gm_.attributes.attr(value->node()->s(c10::attr::name));
    if (!constant) return std::nullopt;
    if (constant->isScalar()) return constant->toScalar().toDouble();
    if (!constant->isTensor()) return std::nullopt;
    const at::Tensor& tensor = constant->toTensor();
    const bool is_one = tensor.defined() && tensor.numel() == 1 && tensor.dim() <= 1;
    return is_one ? std::optional(tensor.item().toDouble()) : std::nullopt;
  }

  void replace(Node* node, c10::Symbol activation, Value* x) {
    Node* made = gm_.graph->create(activation, {x}, 1);
    made->insertBefore(node);
    made->output()->copyMetadata(node->output());
    made->setSourceRange(node->sourceRange());
    ir::take_scope(made, node);
    node->output()->replaceAllUsesWith(made->output());
  }

  GraphModule& gm_;
};

}  // namespace

void gather_activations(GraphModule& gm) { Gathering(gm).run(); }

}  // namespace tsq::passes
