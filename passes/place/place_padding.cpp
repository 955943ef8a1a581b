// Which zero padding before a convolution becomes the convolution's own.
//   conv(observer(pad(x)))   →   conv that knows a PaddingFold
// Padding that is the same on both sides is added to the convolution's. Otherwise the kernel grows by zeros:
// 3x3 with [0, 1] is 4x4 with padding 1; or 5x5 with padding 2, where a surplus output is cut off: some
// kernels are fast for odd sizes with half of them as padding alone.
// Where padding takes less time, the operator stays, in float: LibTorch takes two to three times as long to
// pad quantized tensors as to dequantize, pad and quantize them.

#include <c10/util/accumulate.h>

#include <algorithm>

#include "backends/choices/choices.h"
#include "backends/choices/rounding_times.h"
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

/// An odd kernel in the middle of its padding.
std::optional<PaddingFold> folded_in_the_middle(const ir::Weighted& weighted,
                                                const operators::Padding& sides) {
  PaddingFold result{.before = sides.before, .after = sides.after, .may_have_too_many_outputs = true};
  int64_t half = 0;
  for (std::size_t i = 0; i < sides.before.size(); ++i) {
    const int64_t size = kernel_size(weighted, i);
    half = std::max({half, sides.before[i], size - 1 - sides.before[i]});
    if (sides.before[i] + sides.after[i] >= size) return std::nullopt;
  }
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
      : model_(model),
        context_(context),
        catalogue_(context.target, model, context.lowering_rows),
        roundings_(context.target, model) {}

  /// Whether the convolution is to pad itself.
  bool run(Node* node) {
    const auto padded = padded_convolution(node);
    if (!padded) return false;
    ir::Weighted& weighted = *int8_layer(model_, context_, node);
    weighted.fold = fastest_fold(weighted, *padded);
    if (!weighted.fold) return false;
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

  /// None where an operator pads faster.
  std::optional<PaddingFold> fastest_fold(ir::Weighted& weighted, const PaddedConvolution& padded) {
    double least = time_of(padded.node, ir::Placement::Int8) + time_of_padding(padded);
    std::optional<PaddingFold> fastest;
    for (const PaddingFold& fold : folds_of(weighted, padded)) {
      weighted.fold = fold;
      const double cut = fold.may_have_too_many_outputs ? roundings_.quantize(padded.node->output()) : 0;
      const double time = time_of(padded.node, ir::Placement::Int8) + cut;
      if (time > least || (fastest && time == least)) continue;
      least = time;
      fastest = fold;
    }
    return fastest;
  }

  [[nodiscard]] std::vector<PaddingFold> folds_of(const ir::Weighted& weighted,
                                                  const PaddedConvolution& padded) const {
    const operators::Padding& sides = padded.sides;
    std::vector<PaddingFold> folds{folded_by_the_difference(weighted, sides)};
    if (sides.before == sides.after) return folds;
    if (std::ranges::any_of(weighted.dilation, [](int64_t dilation) { return dilation != 1; })) return {};
    // A program would end where outputs are cut off.
    if (context_.target.runtime == LoweringTarget::Fused) return folds;
    const auto middle = folded_in_the_middle(weighted, sides);
    if (middle && rounding_after(model_, padded.node) != nullptr) folds.push_back(*middle);
    return folds;
  }

  /// 0 where nobody knows.
  double time_of(const Node* node, ir::Placement placement) {
    std::optional<double> least;
    for (const kernels::Choice& choice : catalogue_.timed_choices(node)) {
      if (choice.placement != placement || choice.with != nullptr || choice.refusal || !choice.nanoseconds)
        continue;
      if (!least || *choice.nanoseconds < *least) least = choice.nanoseconds;
    }
    return least.value_or(0);
  }

  /// Of bytes: with floats made of them.
  double time_of_padding(const PaddedConvolution& padded) {
    const double pad = time_of(padded.pad, ir::Placement::Float);
    if (!padded.pads_bytes) return pad;
    return pad + roundings_.dequantize(ir::operands(padded.pad).front()) +
           roundings_.quantize(padded.pad->output());
  }

  void report(const Node* pad) {
    ir::NodeRecord* record = ir::record_of(model_, pad);
    if (record == nullptr) return;
    compute_in_int8(*record);
    if (record->is_reported) record->decision.kernel = "padding of the convolution after it";
  }

  Model& model_;
  const PassContext& context_;
  kernels::Catalogue catalogue_;
  kernels::RoundingTimes roundings_;
};

}  // namespace

bool place_padding(Model& model, const PassContext& context) {
  PaddingPlacement placement(model, context);
  return change_nodes(model, [&](Node* node) { return placement.run(node); });
}

}  // namespace tsq::passes
