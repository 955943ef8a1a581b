// Activations that are written out after a layer become one operator.
//   x * sigmoid(x)                  →   silu(x)
//   x * clamp(x + 3, 0, 6) / 6      →   hardswish(x)
//   x * (1 + erf(x / sqrt(2))) / 2  →   gelu(x), which stays float
// Exporters to ONNX and model files of other frameworks write them so. Quantizing each part rounds four
// times, quantizing the one operator twice, or once where an engine's kernel does it together with the layer.

#include <algorithm>
#include <numbers>
#include <string>
#include <vector>

#include "ir/analysis.h"
#include "operators/functional_weighted.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite_rules.h"

namespace tsq::passes {
namespace {

/// Whether x comes from a layer or a batch norm: it is of floating point, and the activation may join the
/// layer.
bool is_of_layer(const Model& model, const Leaves& leaves) {
  const Node* node = leaves.at("x")->node();
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(model, node);
    return ir::weighted_of(call) != nullptr || ir::is_batch_norm(call);
  }
  return operators::is_functional_layer(model, node);
}

std::vector<Value*> exact_gelu(const Model& /*model*/, const ir::Rewriter& in_front, const Leaves& leaves) {
  return {leaves.at("x"), in_front.constant(std::string("none"))};
}

std::vector<RewriteRule> make_rules() {
  using namespace expressions;
  const Expression gate = read_once(clamp(read_once(x() + 3), 0, 6));
  const Expression distribution = read_once(read_once(erf(factors(std::numbers::sqrt2 / 2, {x()}))) + 1);
  return {
      {.name = "silu",
       .pattern = x() * read_once(sigmoid(x())),
       .replacement = "aten::silu",
       .guard = is_of_layer},
      {.name = "hardswish_divided",
       .pattern = read_once(x() * gate) / 6,
       .replacement = "aten::hardswish",
       .guard = is_of_layer},
      {.name = "hardswish_scaled",
       .pattern = read_once(x() * gate) * (1.0 / 6),
       .replacement = "aten::hardswish",
       .guard = is_of_layer},
      {.name = "hardswish_of_divided_gate",
       .pattern = x() * read_once(gate / 6),
       .replacement = "aten::hardswish",
       .guard = is_of_layer},
      {.name = "hardswish_of_scaled_gate",
       .pattern = x() * read_once(gate * (1.0 / 6)),
       .replacement = "aten::hardswish",
       .guard = is_of_layer},
      {.name = "gelu",
       .pattern = factors(0.5, {x(), distribution}),
       .replacement = "aten::gelu",
       .arguments = exact_gelu},
  };
}

}  // namespace

std::span<const RewriteRule> activation_rules() {
  static const std::vector<RewriteRule> kRules = make_rules();
  return kRules;
}

bool gather_activations(Model& model, const PassContext& /*context*/) {
  return apply_rules(model, activation_rules());
}

}  // namespace tsq::passes
