// Zero padding before a convolution becomes the convolution's own.
//   conv(dequantize(quantize(pad(x))))   →   conv(x)
// Padding that is the same on both sides is added to the convolution's. Otherwise the kernel grows by zeros:
// 3x3 with [0, 1] is 4x4 with padding 1. Where an engine's depthwise kernels want an odd size with half of it
// as padding, 3x3 with [0, 1] is 5x5 with padding 2, and a surplus output is cut off.
// Where an engine is slow with so large a padding or kernel, the operator stays, in float: LibTorch takes two
// to three times as long to pad quantized tensors as to dequantize, pad and quantize them.

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/kernel_limits.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "operators/weighted.h"
#include "operators/zero_padding.h"
#include "passes/convert/passes.h"
#include "passes/decision_index.h"

namespace tsq::passes {
namespace {

using ir::kDequantize;
using ir::kQuantize;
using ir::Model;
using ir::Node;
using ir::Value;

int64_t kernel_size(const ir::Weighted& weighted, std::size_t dim) {
  return weighted.weight.size(static_cast<int64_t>(dim) + 2);
}

/// A convolution that pads as `sides` say: its padding, kernel sizes, and where in the kernel the old taps
/// begin.
struct Folded {
  std::vector<int64_t> padding{};
  std::vector<int64_t> kernel{};
  std::vector<int64_t> offset{};
  bool may_have_too_many_outputs{false};
};

Folded folded_by_the_difference(const ir::Weighted& weighted, const operators::Padding& sides) {
  Folded result;
  for (std::size_t i = 0; i < sides.before.size(); ++i) {
    const int64_t both = std::max(sides.before[i], sides.after[i]);
    result.padding.push_back(both);
    result.offset.push_back(both - sides.before[i]);
    result.kernel.push_back(kernel_size(weighted, i) + std::abs(sides.before[i] - sides.after[i]));
  }
  return result;
}

/// An odd kernel no larger than `largest`, in the middle of its padding.
std::optional<Folded> folded_in_the_middle(const ir::Weighted& weighted, const operators::Padding& sides,
                                           int64_t largest) {
  Folded result{.may_have_too_many_outputs = true};
  int64_t half = 0;
  for (std::size_t i = 0; i < sides.before.size(); ++i) {
    const int64_t size = kernel_size(weighted, i);
    half = std::max({half, sides.before[i], size - 1 - sides.before[i]});
    if (sides.before[i] + sides.after[i] >= size) return std::nullopt;
  }
  if (2 * half + 1 > largest) return std::nullopt;
  for (const int64_t before : sides.before) {
    result.padding.push_back(half);
    result.offset.push_back(half - before);
    result.kernel.push_back(2 * half + 1);
  }
  return result;
}

bool is_depthwise(const ir::Weighted& weighted) {
  return weighted.groups > 1 && weighted.weight.size(1) == 1;
}

bool pads_fast(const ir::Weighted& weighted, const operators::Padding& sides) {
  const int64_t largest = kernels::largest_kernel_that_pads(kernels::current_engine());
  if (largest == 0 || is_depthwise(weighted)) return true;
  for (std::size_t i = 0; i < sides.before.size(); ++i) {
    if (kernel_size(weighted, i) > largest && sides.before[i] + sides.after[i] > 0) return false;
  }
  return true;
}

/// Whether a larger kernel takes less time than an operator that pads. For signals, which are small, it does.
bool grows_fast(const ir::Weighted& weighted, const Folded& fold, bool reads_bytes) {
  if (weighted.stride.size() == 1) return true;
  const int64_t taps =
      c10::multiply_integers(fold.kernel) - c10::multiply_integers(weighted.weight.sizes().slice(2));
  const int64_t products = weighted.weight.size(0) / weighted.groups * taps;  // for a place of the output
  const kernels::GrowingKernel kernel{
      .reads_bytes = reads_bytes,
      .channels = weighted.weight.size(1),
      .products_to_add =
          static_cast<double>(products) / static_cast<double>(c10::multiply_integers(weighted.stride))};
  return kernels::grows_faster_than_padding(kernels::current_engine(), kernel);
}

std::optional<Folded> folded(const ir::Weighted& weighted, const operators::Padding& sides,
                             bool reads_bytes) {
  if (!pads_fast(weighted, sides)) return std::nullopt;
  const Folded grown = folded_by_the_difference(weighted, sides);
  if (sides.before == sides.after) return grown;
  if (std::any_of(weighted.dilation.begin(), weighted.dilation.end(), [](int64_t d) { return d != 1; }))
    return std::nullopt;
  if (!is_depthwise(weighted))
    return grows_fast(weighted, grown, reads_bytes) ? std::optional(grown) : std::nullopt;
  const int64_t largest = kernels::largest_fast_depthwise_kernel(kernels::current_engine());
  return largest == 0 ? grown : folded_in_the_middle(weighted, sides, largest);
}

/// The quantize node after an operator and its clamps; null when the operator has other readers.
Node* quantize_after(Node* node) {
  while (node->kind() != kQuantize) {
    Node* user = ir::only_reader(node);
    if (user == nullptr || user->kind() == c10::prim::Return || user->owningBlock() != node->owningBlock())
      return nullptr;
    node = user;
  }
  return node;
}

class Folding {
 public:
  Folding(Model& gm, const DecisionIndex& decisions, Node* convolution)
      : gm_(gm),
        decisions_(decisions),
        convolution_(convolution),
        weighted_(*ir::weighted_of(ir::call_of(gm, convolution))) {}

  void run() {
    Node* dequantize = convolution_->input(0)->node();
    if (dequantize->kind() != kDequantize || dequantize->input(0)->node()->kind() != kQuantize) return;
    Node* quantize = dequantize->input(0)->node();
    Node* pad = quantize->input(0)->node();
    const auto added = operators::zero_padding(gm_, pad, weighted_.stride.size());
    if (!added || pad->output()->uses().size() != 1) return;
    operators::Padding sides = *added;
    for (std::size_t i = 0; i < sides.before.size(); ++i) {
      sides.before[i] += weighted_.padding[i];
      sides.after[i] += weighted_.padding[i];
    }
    Value* input = ir::operands(pad).front();
    const bool is_quantized = input->node()->kind() == kDequantize;
    const auto fold = folded(weighted_, sides, is_quantized);
    Node* result = quantize_after(convolution_);
    if (!fold || (fold->may_have_too_many_outputs && result == nullptr)) return;
    if (!is_quantized && (quantize->output()->uses().size() != 1 || dequantize->output()->uses().size() != 1))
      return;
    if (is_quantized) {
      convolution_->replaceInput(0, input);
    } else {
      quantize->replaceInput(0, input);
    }
    report(pad);
    if (fold->may_have_too_many_outputs) cut(result, sides);
    apply(*fold);
  }

 private:
  void report(const Node* pad) {
    Decision* decision = decisions_.of(pad);
    if (decision == nullptr) return;
    decision->quantized = true;
    decision->kernel = "padding of the convolution after it";
    decision->reason.clear();
    decision->remedy.clear();
  }

  void apply(const Folded& fold) {
    std::vector<int64_t> sizes{weighted_.weight.size(0), weighted_.weight.size(1)};
    sizes.insert(sizes.end(), fold.kernel.begin(), fold.kernel.end());
    const at::Tensor weight = at::zeros(sizes, weighted_.weight.options());
    at::Tensor taps = weight;
    for (std::size_t i = 0; i < fold.offset.size(); ++i)
      taps = taps.narrow(static_cast<int64_t>(i) + 2, fold.offset[i], kernel_size(weighted_, i));
    taps.copy_(weighted_.weight.detach());
    weighted_.weight = weight;
    weighted_.padding = fold.padding;
  }

  /// The outputs that the padded convolution has, from the size of its input.
  void cut(Node* quantize, const operators::Padding& sides) {
    Node* before = quantize->next();
    const auto integer = [&](int64_t value) { return ir::constant_before(gm_, before, value); };
    const auto number = [&](const char* kind, const std::vector<Value*>& inputs) {
      Value* value = ir::insert_before(gm_, before, kind, inputs);
      value->setType(c10::IntType::get());
      return value;
    };
    Value* result = quantize->output();
    Node* first = nullptr;
    for (std::size_t i = 0; i < sides.before.size(); ++i) {
      const auto dim = static_cast<int64_t>(i) + 2;
      Value* size = number("aten::size", {convolution_->input(0), integer(dim)});
      size =
          number("aten::add", {size, integer(sides.before[i] + sides.after[i] - kernel_size(weighted_, i))});
      size = number("aten::floordiv", {size, integer(weighted_.stride[i])});
      size = number("aten::add", {size, integer(1)});
      result =
          ir::insert_before(gm_, before, "aten::slice", {result, integer(dim), integer(0), size, integer(1)});
      ir::take_scope(result->node(), quantize);
      if (first == nullptr) first = result->node();
    }
    quantize->output()->replaceAllUsesWith(result);
    first->replaceInput(0, quantize->output());
  }

  Model& gm_;
  const DecisionIndex& decisions_;
  Node* convolution_;
  ir::Weighted& weighted_;
};

bool may_be_folded(const Model& gm, const Node* node) {
  if (!ir::is_module_call(node) || ir::is_standalone(gm, node) || node->inputs().empty()) return false;
  const ir::ModuleCall& call = ir::call_of(gm, node);
  const ir::Weighted* weighted = ir::weighted_of(call);
  const Symbol root = call.members.empty() ? call.type : call.members.front().type;
  return weighted != nullptr && weighted->weight_qparams && !weighted->stride.empty() &&
         !operators::is_transposed(root) && weighted->padding_mode == "zeros" &&
         weighted->padding_name.empty();
}

}  // namespace

void fold_padding(Model& gm, Report& report) {
  const DecisionIndex decisions(report);
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (may_be_folded(gm, node)) Folding(gm, decisions, node).run();
  }
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
