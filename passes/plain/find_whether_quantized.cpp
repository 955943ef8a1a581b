// Whether the mapping quantizes anything.

#include <algorithm>

#include "match/qconfig_lookup.h"
#include "passes/plain/passes.h"

namespace tsq::passes {

bool find_whether_quantized(ir::Model& model, const PassContext& context) {
  if (model.is_quantized) return false;
  model.is_quantized =
      std::ranges::any_of(match::find_qconfigs(model, context.mapping),
                          [](const auto& found) { return found.second.qconfig.has_value(); });
  return model.is_quantized;
}

}  // namespace tsq::passes
