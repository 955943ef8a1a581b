// Zero padding before a convolution becomes the convolution's own, where place_padding has said how.
//   conv(dequantize(quantize(pad(x))))   →   conv(x)
// Padding that is the same on both sides is added to the convolution's. Otherwise the kernel has grown by
// zeros: 3x3 with [0, 1] is 4x4 with padding 1, or 5x5 with padding 2, where a surplus output is cut off.

#include <ATen/ATen.h>

#include <utility>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "operators/images/zero_padding.h"
#include "operators/quantize_after.h"
#include "passes/context/nodes.h"
#include "passes/weights/passes.h"

namespace tsq::passes {
namespace {

using ir::kDequantize;
using ir::kQuantize;
using ir::PaddingFold;

/// A convolution of a rounded input that is padded, from the operator that pads on.
struct PaddedInput {
  Node* pad{};
  Node* quantize{};
  Node* dequantize{};
  /// What is padded is rounded already.
  [[nodiscard]] bool is_quantized() const { return ir::operands(pad).front()->node()->kind() == kDequantize; }
};

/// Empty where something else stands there, or reads what is between.
std::optional<PaddedInput> padded_input(const Model& model, const Node* convolution, std::size_t dims) {
  PaddedInput result{.dequantize = convolution->input(0)->node()};
  if (result.dequantize->kind() != kDequantize) return std::nullopt;
  result.quantize = result.dequantize->input(0)->node();
  if (result.quantize->kind() != kQuantize) return std::nullopt;
  result.pad = result.quantize->input(0)->node();
  if (!operators::zero_padding(model, result.pad, dims) || result.pad->output()->uses().size() != 1)
    return std::nullopt;
  const bool is_alone =
      result.quantize->output()->uses().size() == 1 && result.dequantize->output()->uses().size() == 1;
  return result.is_quantized() || is_alone ? std::optional(result) : std::nullopt;
}

int64_t kernel_size(const ir::Weighted& weighted, std::size_t dim) {
  return weighted.weight.size(static_cast<int64_t>(dim) + 2);
}

/// The outputs that the padded convolution has, from the size of its input.
void cut(Model& model, const Node* convolution, Node* quantize, const PaddingFold& fold) {
  const ir::Weighted& weighted = *ir::weighted_of(ir::call_of(model, convolution));
  Node* before = quantize->next();
  const ir::Rewriter in_front(model, before, quantize);
  const auto integer = [&](int64_t value) { return in_front.constant(value); };
  const auto number = [&](const char* kind, const std::vector<Value*>& inputs) {
    return in_front.op(kind, inputs, c10::IntType::get());
  };
  Value* result = quantize->output();
  for (std::size_t i = 0; i < fold.before.size(); ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    Value* size = number("aten::size", {convolution->input(0), integer(dim)});
    size = number("aten::add", {size, integer(fold.before[i] + fold.after[i] - kernel_size(weighted, i))});
    size = number("aten::floordiv", {size, integer(weighted.stride[i])});
    size = number("aten::add", {size, integer(1)});
    result = in_front.op("aten::slice", {result, integer(dim), integer(0), size, integer(1)});
  }
  quantize->output()->replaceAllUsesAfterNodeWith(result->node(), result);
}

void grow(ir::Weighted& weighted, const PaddingFold& fold) {
  std::vector<int64_t> sizes{weighted.weight.size(0), weighted.weight.size(1)};
  sizes.insert(sizes.end(), fold.kernel.begin(), fold.kernel.end());
  const at::Tensor weight = at::zeros(sizes, weighted.weight.options());
  at::Tensor taps = weight;
  for (std::size_t i = 0; i < fold.offset.size(); ++i)
    taps = taps.narrow(static_cast<int64_t>(i) + 2, fold.offset[i], kernel_size(weighted, i));
  taps.copy_(weighted.weight.detach());
  weighted.weight = weight;
  weighted.padding = fold.padding;
}

/// Whether it could be done: equalization may have put a multiplication between.
bool do_fold(Model& model, Node* convolution, const PaddingFold& fold) {
  ir::Weighted& weighted = *ir::weighted_of(ir::call_of(model, convolution));
  if (!weighted.weight_qparams) return false;
  const auto input = padded_input(model, convolution, weighted.stride.size());
  Node* result = operators::quantize_after(convolution);
  if (result != nullptr && result->owningBlock() != convolution->owningBlock()) result = nullptr;
  if (!input || (fold.may_have_too_many_outputs && result == nullptr)) return false;
  Value* exact = ir::operands(input->pad).front();
  if (input->is_quantized()) {
    convolution->replaceInput(0, exact);
  } else {
    input->quantize->replaceInput(0, exact);
  }
  if (fold.may_have_too_many_outputs) cut(model, convolution, result, fold);
  grow(weighted, fold);
  return true;
}

}  // namespace

bool fold_padding(Model& model, const PassContext&) {
  bool has_changed = false;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    ir::Weighted* weighted = weighted_at(model, node);
    if (weighted == nullptr || !weighted->fold) continue;
    const PaddingFold fold = *std::exchange(weighted->fold, std::nullopt);
    has_changed |= do_fold(model, node, fold);
  }
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
