// Refuses a custom config that names an input which forward has not.

#include <fmt/format.h>
#include <tsq/error.h>

#include "passes/match/passes.h"

namespace tsq::passes {

bool check_quantized_indexes(ir::Model& model, const PassContext& context) {
  const std::size_t inputs = model.graph->inputs().size() - 1;
  for (const int index : context.custom.input_quantized_indexes()) {
    if (index >= 0 && static_cast<std::size_t>(index) < inputs) continue;
    throw Error(ErrorCode::BadConfig,
                fmt::format("input_quantized_idxs names input {}, forward has {}", index, inputs),
                "count the arguments of forward from 0");
  }
  return false;
}

}  // namespace tsq::passes
