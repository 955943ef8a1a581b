// Which zero padding before a convolution becomes the convolution's own.
//   conv(observer(pad(x)))   →   conv that knows a PaddingFold
// Padding that is the same on both sides is added to the convolution's. Otherwise the kernel grows by zeros:
// 3x3 with [0, 1] is 4x4 with padding 1. Where an engine's depthwise kernels want an odd size with half of it
// as padding, 3x3 with [0, 1] is 5x5 with padding 2, and a surplus output is cut off.
// Where an engine is slow with so large a padding or kernel, the operator stays, in float: LibTorch takes two
// to three times as long to pad quantized tensors as to dequantize, pad and quantize them.

#include <c10/util/accumulate.h>

#include <algorithm>

#include "backends/kernels/costs.h"
#include "backends/kernels/kernel_limits.h"
#include "ir/analysis.h"
#include "operators/images/zero_padding.h"
#include "operators/weighted.h"
#include "passes/context/nodes.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

using ir::PaddingFold;

int64_t kernel_size(const ir::Weighted& weighted, std::size_t dim) {
  return weighted.weight.size(static_cast<int64_t>(dim) + 2);
}

bool is_depthwise(const ir::Weighted& weighted) {
  return weighted.groups > 1 && weighted.weight.size(1) == 1;
}

PaddingFold folded_by_the_difference(const ir::Weighted& weighted, const operators::Padding& sides) {
  PaddingFold result{.before = sides.before, .after = sides.after};
  for (std::size_t i = 0; i < sides.before.size(); ++i) {
    const int64_t both = std::max(sides.before[i], sides.after[i]);
    result.padding.push_back(both);
    result.offset.push_back(both - sides.before[i]);
    result.kernel.push_back(kernel_size(weighted, i) + std::abs(sides.before[i] - sides.after[i]));
  }
  return result;
}

/// An odd kernel no larger than `largest`, in the middle of its padding.
std::optional<PaddingFold> folded_in_the_middle(const ir::Weighted& weighted, const operators::Padding& sides,
                                                int64_t largest) {
  PaddingFold result{.before = sides.before, .after = sides.after, .may_have_too_many_outputs = true};
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

/// The observer after an operator and its clamps; null when the operator has other readers.
const Node* rounding_after(const Model& model, const Node* node) {
  while (!is_static_rounding(model, node)) {
    const Node* user = ir::only_reader(node);
    if (user == nullptr || user->kind() == c10::prim::Return || user->owningBlock() != node->owningBlock())
      return nullptr;
    node = user;
  }
  return node;
}

/// The padding before a convolution in int8.
struct PaddedConvolution {
  Node* node{};
  Node* pad{};
  operators::Padding sides{};  ///< the convolution's own included
  bool pads_bytes{};           ///< the output of a kernel, which would be dequantized to be padded
};

class PaddingPlacement {
 public:
  PaddingPlacement(Model& model, const PassContext& context)
      : model_(model), context_(context), costs_(kernels::costs_of(context.target)) {}

  /// Whether the convolution is to pad itself.
  bool run(Node* node) {
    const auto padded = padded_convolution(node);
    if (!padded) return false;
    ir::Weighted& weighted = *int8_layer(model_, context_, node);
    weighted.fold = fold(weighted, *padded);
    if (!weighted.fold) return false;
    if (slow_layer(model_, context_, node) == SlowLayer::Alone) {  // it would stay float for its padding
      weighted.fold.reset();
      return false;
    }
    report(padded->pad);
    return true;
  }

 private:
  bool may_pad_itself(const Node* node) const {
    if (node->inputs().empty()) return false;
    const ir::Weighted* weighted = int8_layer(model_, context_, node);
    if (weighted == nullptr || weighted->stride.empty()) return false;
    const ir::ModuleCall& call = ir::call_of(model_, node);
    const Symbol root = ir::root_of(call).type;
    return !operators::is_transposed(root) && weighted->padding_mode == "zeros" &&
           weighted->padding_name.empty();
  }

  std::optional<PaddedConvolution> padded_convolution(Node* node) const {
    if (!may_pad_itself(node) || !is_static_rounding(model_, node->input(0)->node())) return std::nullopt;
    const Value* rounded = node->input(0);
    Node* pad = node->input(0)->node()->input(0)->node();
    const ir::Weighted& weighted = *int8_layer(model_, context_, node);
    const auto added = operators::zero_padding(model_, pad, weighted.stride.size());
    if (!added || pad->output()->uses().size() != 1) return std::nullopt;
    PaddedConvolution found{.node = node, .pad = pad, .sides = *added};
    for (std::size_t i = 0; i < found.sides.before.size(); ++i) {
      found.sides.before[i] += weighted.padding[i];
      found.sides.after[i] += weighted.padding[i];
    }
    found.pads_bytes = is_rounded(model_, context_, ir::operands(pad).front());
    // What is rounded after the padding is rounded before it then: for all of its readers.
    if (!found.pads_bytes && rounded->uses().size() != 1) return std::nullopt;
    return found;
  }

  std::optional<PaddingFold> fold(const ir::Weighted& weighted, const PaddedConvolution& padded) const {
    std::optional<PaddingFold> found = fastest_fold(weighted, padded);
    if (found && found->may_have_too_many_outputs && rounding_after(model_, padded.node) == nullptr)
      return std::nullopt;
    return found;
  }

  std::optional<PaddingFold> fastest_fold(const ir::Weighted& weighted,
                                          const PaddedConvolution& padded) const {
    const operators::Padding& sides = padded.sides;
    if (!pads_fast(weighted, sides)) return std::nullopt;
    const PaddingFold grown = folded_by_the_difference(weighted, sides);
    if (sides.before == sides.after) return grown;
    if (std::ranges::any_of(weighted.dilation, [](int64_t dilation) { return dilation != 1; }))
      return std::nullopt;
    if (!is_depthwise(weighted))
      return grows_fast(weighted, grown, padded.pads_bytes) ? std::optional(grown) : std::nullopt;
    const int64_t largest = costs_.largest_fast_depthwise_kernel;
    return largest == kernels::EngineCosts::kAny ? grown : folded_in_the_middle(weighted, sides, largest);
  }

  bool pads_fast(const ir::Weighted& weighted, const operators::Padding& sides) const {
    const int64_t largest = costs_.largest_kernel_that_pads;
    if (largest == kernels::EngineCosts::kAny || is_depthwise(weighted)) return true;
    for (std::size_t i = 0; i < sides.before.size(); ++i) {
      if (kernel_size(weighted, i) > largest && sides.before[i] + sides.after[i] > 0) return false;
    }
    return true;
  }

  /// Whether a larger kernel takes less time than an operator that pads. For signals, which are small, it
  /// does.
  bool grows_fast(const ir::Weighted& weighted, const PaddingFold& grown, bool reads_bytes) const {
    if (weighted.stride.size() == 1) return true;
    const int64_t taps =
        c10::multiply_integers(grown.kernel) - c10::multiply_integers(weighted.weight.sizes().slice(2));
    const int64_t products = weighted.weight.size(0) / weighted.groups * taps;  // for a place of the output
    const kernels::GrowingKernel kernel{
        .reads_bytes = reads_bytes,
        .channels = weighted.weight.size(1),
        .products_to_add =
            static_cast<double>(products) / static_cast<double>(c10::multiply_integers(weighted.stride))};
    return kernels::grows_faster_than_padding(context_.target, kernel);
  }

  void report(const Node* pad) {
    ir::NodeRecord* record = ir::record_of(model_, pad);
    if (record == nullptr) return;
    compute_in_int8(*record);
    if (record->is_reported) record->decision.kernel = "padding of the convolution after it";
  }

  Model& model_;
  const PassContext& context_;
  const kernels::EngineCosts& costs_;
};

}  // namespace

bool place_padding(Model& model, const PassContext& context) {
  PaddingPlacement placement(model, context);
  return change_nodes(model, [&](Node* node) { return placement.run(node); });
}

}  // namespace tsq::passes
