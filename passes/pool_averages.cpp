// Averages of images in float by the kernel that is fastest with them: avg_pool2d takes a third of the time
// of adaptive_avg_pool2d and mean.
//   adaptive_avg_pool2d(dequantize(x), 1)   →   avg_pool2d(dequantize(x), x.size()[2:])

#include <torch/csrc/jit/ir/constants.h>

#include "ir/quantize_operators.h"
#include "modules/fault_conditions.h"
#include "modules/kernel_arguments.h"
#include "modules/whole_average.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

/// x.size()[2:]
Value* image_size(GraphModule& gm, Value* x, Node* before) {
  const auto constant = [&](const c10::IValue& value) { return modules::constant_before(gm, before, value); };
  const auto sizes = [&](const char* kind, const std::vector<Value*>& inputs) {
    Value* list = modules::insert_before(gm, before, kind, inputs);
    list->setType(c10::ListType::ofInts());
    return list;
  };
  return sizes("aten::slice", {sizes("aten::size", {x}), constant(int64_t{2}), constant(c10::IValue()),
                               constant(int64_t{1})});
}

/// Whether a kernel gives a value, in channels-last layout, and with four dimensions.
bool is_image_of_kernel(const GraphModule& gm, const Value* value) {
  const Node* node = value->node();
  const bool is_float = node->kind() == c10::Symbol::fromQualString("onednn::qconv2d_pointwise");
  if (node->kind() != ir::kDequantize && !is_float) return false;
  const Node* kernel = is_float ? node : node->input(0)->node();
  if (!ir::is_module_call(kernel)) return modules::known_rank(value) == 4;
  return ir::call_of(gm, kernel).type.name.ends_with("2d");  // MaxPool2d
}

void use_average_pool(GraphModule& gm, Node* average) {
  const auto constant = [&](const c10::IValue& value) {
    return modules::constant_before(gm, average, value);
  };
  Value* x = ir::operands(average).front();
  Value* no_strides = constant(c10::List<int64_t>());
  Value* no_padding = constant(std::vector<int64_t>{0, 0});
  Value* pooled = modules::insert_before(gm, average, "aten::avg_pool2d",
                                         {x, image_size(gm, x, average), no_strides, no_padding,
                                          constant(false), constant(true), constant(c10::IValue())});
  pooled->node()->setSourceRange(average->sourceRange());
  ir::take_scope(pooled->node(), average);
  average->output()->replaceAllUsesWith(pooled);
  average->destroy();
}

}  // namespace

void pool_averages(GraphModule& gm) {
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!modules::is_whole_image_average(gm, node)) continue;
    if (is_image_of_kernel(gm, ir::operands(node).front())) use_average_pool(gm, node);
  }
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
