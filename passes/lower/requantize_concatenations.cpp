// A concatenation of quantized tensors becomes the kernel that requantizes each to the range of the output.
//   quantize(cat([dequantize(a), dequantize(b)], 1), s, z)   →   quantized::cat([a, b], 1, s, z)
// at::cat of quantized tensors takes scale and zero point of the first.

#include <algorithm>

#include "ir/analysis.h"
#include "ir/quantize_operators.h"
#include "passes/lower/passes.h"

namespace tsq::passes {
namespace {

using ir::kDequantize;
using ir::kQuantize;
using ir::Model;
using ir::Node;
using ir::Value;

bool reads_quantized_values(const Node* concatenation) {
  const auto elements = concatenation->input(0)->node()->inputs();
  return !elements.empty() && std::all_of(elements.begin(), elements.end(), [](const Value* element) {
    return element->node()->kind() == kDequantize;
  });
}

void use_kernel(Model& gm, Node* concatenation, Node* quantize) {
  std::vector<Value*> elements;
  for (const Value* operand : concatenation->input(0)->node()->inputs())
    elements.push_back(operand->node()->input(0));
  Node* list = gm.graph->createList(c10::TensorType::get(), elements);
  list->insertBefore(quantize);
  Node* kernel =
      gm.graph->create(c10::Symbol::fromQualString("quantized::cat"),
                       {list->output(), concatenation->input(1), quantize->input(1), quantize->input(2)}, 1);
  kernel->insertBefore(quantize);
  kernel->setSourceRange(concatenation->sourceRange());
  ir::take_scope(kernel, concatenation);
  quantize->output()->replaceAllUsesWith(kernel->output());
  quantize->destroy();
}

}  // namespace

void requantize_concatenations(Model& gm, Report& report) {
  for (Node* quantize : ir::nodes_in_order(*gm.graph)) {
    if (quantize->kind() != kQuantize) continue;
    Node* concatenation = quantize->input(0)->node();
    const bool is_plain = concatenation->kind() == c10::aten::cat &&
                          !ir::keeps_reference(gm, concatenation) &&
                          concatenation->input(0)->node()->kind() == c10::prim::ListConstruct &&
                          concatenation->output()->uses().size() == 1;
    if (!is_plain || !reads_quantized_values(concatenation)) continue;
    for (Decision& decision : report.decisions) {
      if (decision.node == concatenation->output()->debugName()) decision.kernel = "quantized::cat";
    }
    use_kernel(gm, concatenation, quantize);
  }
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
