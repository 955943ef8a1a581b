// Filters that slide over one channel → a linear layer over windows of the signal. LibTorch's float
// convolution takes three times as long for a few windows.
//   conv1d(x, filters, stride)   becomes   transpose(linear(contiguous(unfold(x, length, stride)), filters))

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_set>

#include "modules/filter_bank.h"
#include "modules/kernel_arguments.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;
using modules::constant_before;
using modules::insert_before;

/// So many windows hold each value of the signal at most: the linear layer reads copies of them.
constexpr int64_t kMostCopies = 4;
constexpr auto kContiguous = static_cast<int64_t>(c10::MemoryFormat::Contiguous);

Value* attribute_before(GraphModule& gm, Node* before, const std::string& name, const at::Tensor& value) {
  const torch::jit::WithInsertPoint guard(before);
  return ir::insert_attribute(gm, name, value, c10::TensorType::get());
}

/// [..., 1, samples] → [..., filters, windows]. Axes count from the last: a signal may come without a batch.
Value* linear_over_windows(GraphModule& gm, Node* op, const ir::Weighted& filters) {
  const auto number = [&](int64_t value) { return constant_before(gm, op, value); };
  const std::string path = ir::is_module_call(op) ? ir::call_of(gm, op).path : ir::scope_of(gm, op).path;
  Value* windows = insert_before(
      gm, op, "aten::unfold",
      {op->input(0), number(-1), number(filters.weight.size(2)), number(filters.stride.front())});
  Value* frames = insert_before(gm, op, "aten::squeeze", {windows, number(-3)});
  // A linear layer of several axes multiplies matrix by matrix where they overlap in memory.
  Value* copies = insert_before(gm, op, "aten::contiguous", {frames, number(kContiguous)});
  Value* weight = attribute_before(gm, op, path + "_filters", filters.weight.detach().squeeze(1));
  Value* bias = filters.bias.defined() ? attribute_before(gm, op, path + "_bias", filters.bias.detach())
                                       : constant_before(gm, op, c10::IValue());
  Value* products = insert_before(gm, op, "aten::linear", {copies, weight, bias});
  return insert_before(gm, op, "aten::transpose", {products, number(-1), number(-2)});
}

/// A function's filters may be what the model changes while it runs.
bool is_written(const Node* op, const std::unordered_set<std::string>& written) {
  return std::ranges::any_of(op->inputs(), [&](const Value* value) {
    return value->node()->kind() == c10::prim::GetAttr && written.contains(value->node()->s(c10::attr::name));
  });
}

}  // namespace

void window_filter_banks(GraphModule& gm, const Report& report) {
  if (std::ranges::none_of(report.decisions, &Decision::quantized)) return;
  const auto written = ir::written_attributes(gm);
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (is_written(node, written)) continue;
    const auto filters = modules::filter_bank(gm, node);
    if (!filters || filters->weight.size(2) > kMostCopies * filters->stride.front()) continue;
    node->output()->replaceAllUsesWith(linear_over_windows(gm, node, *filters));
    node->destroy();
  }
}

}  // namespace tsq::passes
