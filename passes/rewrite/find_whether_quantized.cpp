// Whether the mapping quantizes anything.

#include <algorithm>

#include "match/qconfig_lookup.h"
#include "passes/rewrite/lifted_products.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {
namespace {

bool finds_a_qconfig(const ir::Model& model, const QConfigMapping& mapping) {
  return std::ranges::any_of(match::find_qconfigs(model, mapping),
                             [](const auto& found) { return found.second.qconfig.has_value(); });
}

/// A product becomes a layer only where the mapping has a QConfig for that.
bool lifts_a_product(const ir::Model& model, const QConfigMapping& mapping) {
  ir::Model tried = model.copy();
  return put_layers_for_products(tried, mapping);
}

}  // namespace

bool find_whether_quantized(ir::Model& model, const PassContext& context) {
  if (model.is_quantized) return false;
  model.is_quantized =
      finds_a_qconfig(model, context.mapping) || (!context.trains && lifts_a_product(model, context.mapping));
  return model.is_quantized;
}

}  // namespace tsq::passes
