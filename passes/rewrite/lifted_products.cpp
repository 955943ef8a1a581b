#include "passes/rewrite/lifted_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "match/dtype_check.h"
#include "match/qconfig_lookup.h"
#include "passes/rewrite/constant_factors.h"
#include "passes/rewrite/product_layer.h"
#include "passes/rewrite/product_spellings.h"

namespace tsq::passes {
namespace {

using Lookups = std::unordered_map<const Node*, QConfigDecision>;

/// multi_dot([x, W, V])   →   matmul(matmul(x, W), V). Returns whether the node was such a chain.
bool open_chain(Model& model, const ConstantFactors& factors, Node* node) {
  const std::string_view kind = node->kind().toQualString();
  const bool is_chain = kind == "aten::linalg_multi_dot" || kind == "aten::chain_matmul";
  if (!is_chain || node->inputs().size() != 1) return false;
  Node* list = node->input(0)->node();
  if (list->kind() != c10::prim::ListConstruct || list->inputs().size() < 2 ||
      factors.computed(list->input(0)))
    return false;
  const auto is_weight = [&](const Value* factor) { return factors.weight_of(factor).has_value(); };
  if (!std::all_of(list->inputs().begin() + 1, list->inputs().end(), is_weight)) return false;
  const ir::Rewriter in_front(model, node);
  Value* product = list->inputs()[0];
  for (Value* factor : list->inputs().slice(1)) product = in_front.op("aten::matmul", {product, factor});
  node->output()->replaceAllUsesWith(product);
  return true;
}

/// A name of its own for each layer, in the module in which the product is; that of the module itself where
/// this is a linear layer.
std::string path_of(const Model& model, const Product& product, std::size_t number) {
  const ir::Scope& scope = ir::scope_of(model, product.last);
  if (scope.type.name == "torch.nn.Linear" || scope.type.name == "torch.nn.NonDynamicallyQuantizableLinear")
    return scope.path;
  return fmt::format("{}{}linear_{}", scope.path, scope.path.empty() ? "" : ".", number);
}

/// F.linear: where its weight alone is quantized, and where both are quantized alike and any spelling counts.
bool is_wanted_of_linear(const Model& model, const MaybeQConfig& own, const MaybeQConfig& layers) {
  if (!layers) return false;
  if (model.any_spelling && own) return *own == *layers;
  return match::is_weight_only(*layers) && (!own || match::is_weight_only(*own));
}

bool is_wanted_of_others(const Model& model, bool is_left_float, const MaybeQConfig& layers) {
  if (!layers) return false;
  if (match::is_weight_only(*layers) || resolve(layers->activation).is_dynamic) return true;
  return model.any_spelling && !is_left_float;
}

/// Whether the mapping leaves the layer float by its own name or order, which the report of an earlier run
/// told: it is
/// the layer then that stays float, not the product that would be quantized in its place.
bool is_left_float_by_name(const Model& model, const LiftedProduct& lifted, const Lookups& lookups) {
  const QConfigDecision& decision = lookups.at(lifted.layer);
  if (decision.qconfig) return false;
  switch (decision.source) {
    case QConfigSource::ModuleName:
      return decision.key == ir::call_of(model, lifted.layer).path;
    case QConfigSource::ModuleNameRegex:
      return lookups.at(lifted.product).qconfig.has_value();
    case QConfigSource::ModuleNameObjectTypeOrder:  // FX counts modules alone
      return model.any_spelling && lookups.at(lifted.product).qconfig.has_value();
    default:
      return false;
  }
}

bool is_wanted(const Model& model, const LiftedProduct& lifted, const Lookups& lookups) {
  const MaybeQConfig& own = lookups.at(lifted.product).qconfig;
  const MaybeQConfig& layers = lookups.at(lifted.layer).qconfig;
  if (is_left_float_by_name(model, lifted, lookups)) return true;
  if (lifted.product->kind() == c10::aten::linear) return is_wanted_of_linear(model, own, layers);
  return is_wanted_of_others(model, !own || !lookups.at(lifted.last).qconfig, layers);
}

}  // namespace

bool put_layers_for_products(Model& model, const QConfigMapping& mapping) {
  const ConstantFactors factors(model);
  bool changed = false;
  if (model.any_spelling) {
    for (Node* node : ir::LiveNodes(*model.graph)) changed |= open_chain(model, factors, node);
  }
  std::vector<LiftedProduct> lifted;
  for (Node* node : ir::LiveNodes(*model.graph)) {
    if (const auto product = product_at(factors, node))
      lifted.push_back(put_layer(model, node, *product, path_of(model, *product, lifted.size())));
  }
  const Lookups lookups = match::find_qconfigs(model, mapping);
  for (const LiftedProduct& each : lifted) {
    if (is_wanted(model, each, lookups))
      changed = true;
    else
      take_back(each);
  }
  return ir::eliminate_dead_code(*model.graph) || changed;
}

}  // namespace tsq::passes
