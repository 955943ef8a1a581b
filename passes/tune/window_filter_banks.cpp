// Filters that slide over one channel → a linear layer over windows of the signal. LibTorch's float
// convolution takes three times as long for a few windows.
//   conv1d(x, filters, stride)   becomes   transpose(linear(contiguous(unfold(x, length, stride)), filters))

#include <ATen/ATen.h>

#include "backends/kernels/filter_bank.h"
#include "ir/edit.h"
#include "passes/tune/passes.h"
#include "passes/tune/quantized_operators.h"

namespace tsq::passes {
namespace {

using kernels::FilterBank;

constexpr auto kContiguous = static_cast<int64_t>(c10::MemoryFormat::Contiguous);

/// [..., 1, samples] → [..., filters, windows]. Axes count from the last: a signal may come without a batch.
Value* linear_over_windows(Model& model, const FilterBank& bank) {
  const auto& [op, filters, path] = bank;
  const ir::Rewriter in_front(model, op);
  const auto number = [&](int64_t value) { return in_front.constant(value); };
  Value* windows = in_front.op("aten::unfold", {op->input(0), number(-1), number(filters.weight.size(2)),
                                                number(filters.stride.front())});
  Value* frames = in_front.op("aten::squeeze", {windows, number(-3)});
  // A linear layer of several axes multiplies matrix by matrix where they overlap in memory.
  Value* copies = in_front.op("aten::contiguous", {frames, number(kContiguous)});
  Value* weight = in_front.attribute(path + "_filters", filters.weight.detach().squeeze(1));
  Value* bias = filters.bias.defined() ? in_front.attribute(path + "_bias", filters.bias.detach())
                                       : in_front.constant(c10::IValue());
  Value* products = in_front.op("aten::linear", {copies, weight, bias});
  return in_front.op("aten::transpose", {products, number(-1), number(-2)});
}

}  // namespace

bool window_filter_banks(Model& model, const PassContext& context) {
  if (!has_quantized_operator(model)) return false;
  bool has_changed = false;
  for (const FilterBank& bank : kernels::filter_banks(model)) {
    if (!kernels::has_few_copies(context.target, bank.filters)) continue;
    bank.node->output()->replaceAllUsesWith(linear_over_windows(model, bank));
    bank.node->destroy();
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
