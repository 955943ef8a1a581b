// Filters that slide over one channel → a linear layer over windows of the signal. LibTorch's float
// convolution takes three times as long for a few windows.
//   conv1d(x, filters, stride)   becomes   transpose(linear(contiguous(unfold(x, length, stride)), filters))

#include <ATen/ATen.h>

#include <algorithm>

#include "backends/kernels/filter_bank.h"
#include "ir/edit.h"
#include "passes/tune/passes.h"

namespace tsq::passes {
namespace {

using ir::attribute_before;
using ir::constant_before;
using ir::insert_before;
using ir::Model;
using ir::Node;
using ir::Value;
using kernels::FilterBank;

constexpr auto kContiguous = static_cast<int64_t>(c10::MemoryFormat::Contiguous);

/// [..., 1, samples] → [..., filters, windows]. Axes count from the last: a signal may come without a batch.
Value* linear_over_windows(Model& gm, const FilterBank& bank) {
  const auto& [op, filters, path] = bank;
  const auto number = [&, before = bank.node](int64_t value) { return constant_before(gm, before, value); };
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

}  // namespace

void window_filter_banks(Model& gm, const Report& report) {
  if (std::ranges::none_of(report.decisions, &Decision::quantized)) return;
  for (const FilterBank& bank : kernels::filter_banks(gm)) {
    if (!kernels::has_few_copies(bank.filters)) continue;
    bank.node->output()->replaceAllUsesWith(linear_over_windows(gm, bank));
    bank.node->destroy();
  }
}

}  // namespace tsq::passes
