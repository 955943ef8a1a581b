// A concatenation of quantized tensors becomes the kernel that requantizes each to the range of the output.
//   quantize(cat([dequantize(a), dequantize(b)], 1), s, z)   →   quantized::cat([a, b], 1, s, z)
// at::cat of quantized tensors takes scale and zero point of the first.

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/quantize_operators.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"

namespace tsq::passes {
namespace {

using ir::kDequantize;
using ir::kQuantize;

bool reads_quantized_values(const Node* concatenation) {
  const auto elements = concatenation->input(0)->node()->inputs();
  return !elements.empty() && std::ranges::all_of(elements, [](const Value* element) {
    return element->node()->kind() == kDequantize;
  });
}

void use_kernel(Model& model, Node* concatenation, Node* quantize) {
  std::vector<Value*> elements;
  for (const Value* operand : concatenation->input(0)->node()->inputs())
    elements.push_back(operand->node()->input(0));
  Value* list = ir::list_before(quantize, c10::TensorType::get(), elements);
  replace_by_kernel(model, concatenation, kernels::kConcatenation,
                    {list, concatenation->input(1), quantize->input(1), quantize->input(2)}, quantize);
}

}  // namespace

bool requantize_concatenations(Model& model, const PassContext& /*context*/) {
  bool has_changed = false;
  for (Node* quantize : ir::LiveNodes(*model.graph)) {
    if (quantize->kind() != kQuantize) continue;
    Node* concatenation = quantize->input(0)->node();
    const bool is_plain = concatenation->kind() == c10::aten::cat && !ir::stays_float(model, concatenation) &&
                          concatenation->input(0)->node()->kind() == c10::prim::ListConstruct &&
                          concatenation->output()->uses().size() == 1;
    if (!is_plain || !reads_quantized_values(concatenation)) continue;
    use_kernel(model, concatenation, quantize);
    has_changed = true;
  }
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
