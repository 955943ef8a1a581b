#include "operators/dynamic_input.h"

#include "ir/constants.h"
#include "ir/quantize_operators.h"

namespace tsq::operators {

std::optional<DynamicInput> dynamic_input(const ir::Value* read) {
  static const c10::Symbol kQuantize = c10::Symbol::fromQualString("aten::quantize_per_tensor_dynamic");
  if (read->node()->kind() != ir::kDequantize) return std::nullopt;
  ir::Node* quantize = read->node()->input(0)->node();
  if (quantize->kind() != kQuantize) return std::nullopt;
  const auto dtype = ir::dtype_constant(quantize->input(1));
  if (!dtype) return std::nullopt;
  return DynamicInput{.value = quantize->input(0), .dtype = *dtype, .reduce_range = quantize->input(2)};
}

}  // namespace tsq::operators
