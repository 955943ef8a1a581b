// A LayerNorm that is written out becomes one operator: six reductions and products of the whole tensor less,
// and what knows a LayerNorm by its name knows this one.
//   (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps) * weight + bias   →   layer_norm(x, weight, bias,
//   eps)
// Exporters to ONNX before version 17 write it so.

#include "passes/rewrite/held_constants.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite_rules.h"

namespace tsq::passes {
namespace {

bool have_one_size(const Model& model, const Leaves& leaves) {
  return vector_size(model, leaves.at("weight")) == vector_size(model, leaves.at("bias"));
}

std::vector<Value*> of_last_dimension(const Model& model, const ir::Rewriter& in_front,
                                      const Leaves& leaves) {
  Value* weight = leaves.at("weight");
  const auto bias = leaves.find("bias");
  return {leaves.at("x"),
          in_front.constant(std::vector<int64_t>{vector_size(model, weight)}),
          weight,
          bias == leaves.end() ? in_front.constant(c10::IValue()) : bias->second,
          in_front.constant(*constant_number(model, leaves.at("eps"))),
          in_front.constant(false)};
}

std::vector<RewriteRule> make_layer_norm_rules() {
  using namespace expressions;
  const Expression centered = x() - row_mean(x());
  const Expression normalized = centered / sqrt(row_mean(square(centered)) + number("eps"));
  const Expression scaled = read_once(normalized) * vector("weight");
  return {
      {.name = "layer_norm",
       .pattern = read_once(scaled) + vector("bias"),
       .replacement = "aten::layer_norm",
       .arguments = of_last_dimension,
       .guard = have_one_size},
      {.name = "layer_norm_without_bias",
       .pattern = scaled,
       .replacement = "aten::layer_norm",
       .arguments = of_last_dimension},
  };
}

}  // namespace

std::span<const RewriteRule> layer_norm_rules() {
  static const std::vector<RewriteRule> kRules = make_layer_norm_rules();
  return kRules;
}

bool gather_layer_norms(Model& model, const PassContext& /*context*/) {
  return apply_rules(model, layer_norm_rules());
}

}  // namespace tsq::passes
