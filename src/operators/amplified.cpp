#include "operators/amplified.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "operators/clamp_bounds.h"

namespace tsq::operators {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

/// An operand for whose small (or nearly limiting) values the function's slope grows without bound. A
/// logarithm of one and more, and asinh, have a slope of one at zero, which over a range of thousands is as
/// much.
struct Amplifier {
  std::string_view kind;
  std::size_t operand;
};
constexpr std::array kAmplifiers{
    Amplifier{"log", 0},        Amplifier{"log2", 0},        Amplifier{"log10", 0},  Amplifier{"log1p", 0},
    Amplifier{"sqrt", 0},       Amplifier{"rsqrt", 0},       Amplifier{"asinh", 0},  Amplifier{"acosh", 0},
    Amplifier{"atanh", 0},      Amplifier{"asin", 0},        Amplifier{"acos", 0},   Amplifier{"logit", 0},
    Amplifier{"reciprocal", 0}, Amplifier{"erfinv", 0},      Amplifier{"lgamma", 0}, Amplifier{"digamma", 0},
    Amplifier{"div", 1},        Amplifier{"true_divide", 1}, Amplifier{"divide", 1}, Amplifier{"xlogy", 1},
};

/// Of their first operand, and lists of several.
constexpr std::array<std::string_view, 45> kMoves{"slice",
                                                  "select",
                                                  "narrow",
                                                  "chunk",
                                                  "split",
                                                  "split_with_sizes",
                                                  "unbind",
                                                  "transpose",
                                                  "permute",
                                                  "unsqueeze",
                                                  "squeeze",
                                                  "reshape",
                                                  "view",
                                                  "flatten",
                                                  "unflatten",
                                                  "contiguous",
                                                  "expand",
                                                  "expand_as",
                                                  "repeat",
                                                  "cat",
                                                  "concat",
                                                  "stack",
                                                  "index",
                                                  "index_select",
                                                  "gather",
                                                  "flip",
                                                  "roll",
                                                  "pad",
                                                  "constant_pad_nd",
                                                  "to",
                                                  "type_as",
                                                  "clone",
                                                  "alias",
                                                  "detach",
                                                  "dropout",
                                                  "t",
                                                  "max_pool1d",
                                                  "max_pool2d",
                                                  "max_pool3d",
                                                  "amax",
                                                  "amin",
                                                  "masked_fill",
                                                  "view_as",
                                                  "reshape_as",
                                                  "movedim"};
constexpr std::array<std::string_view, 8> kLinear{"add", "sub", "rsub", "mul",
                                                  "div", "neg", "abs",  "maximum"};

bool is_aten(const Node* node, std::string_view name) {
  return node->kind().is_aten() && node->kind().toUnqualString() == name;
}

template <std::size_t Size>
bool is_one_of(const Node* node, const std::array<std::string_view, Size>& names) {
  return node->kind().is_aten() && std::ranges::find(names, node->kind().toUnqualString()) != names.end();
}

/// The tensor that a value always is; undefined for all else.
at::Tensor constant_tensor(const GraphModule& gm, const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::GetAttr && node->input(0) == gm.graph->inputs().at(0)) {
    const c10::IValue held = gm.attributes.attr(node->s(c10::attr::name));
    return held.isTensor() ? held.toTensor() : at::Tensor();
  }
  const auto held = torch::jit::toIValue(value);
  return held && held->isTensor() ? held->toTensor() : at::Tensor();
}

bool is_number_or_constant(const GraphModule& gm, const Value* value) {
  return !ir::holds_tensor(value) || constant_tensor(gm, value).defined();
}

/// Below one, or known only when the model runs.
bool is_small_exponent(const GraphModule& gm, const Value* exponent) {
  if (const at::Tensor known = constant_tensor(gm, exponent); known.defined())
    return known.numel() != 0 && known.to(at::kDouble).lt(1).any().item<bool>();
  const auto number = torch::jit::toIValue(exponent);
  return !number || !number->isScalar() || number->toScalar().toDouble() < 1;
}

bool amplifies(const GraphModule& gm, const Node* node, const Value* value) {
  if ((is_aten(node, "pow") || is_aten(node, "float_power")) && node->input(0) == value)
    return is_small_exponent(gm, node->input(1));
  return std::ranges::any_of(kAmplifiers, [&](const Amplifier& each) {
    return is_aten(node, each.kind) && node->inputs().size() > each.operand &&
           node->input(each.operand) == value;
  });
}

/// Modules and functions of torch.nn that move values.
bool is_module_that_moves(const GraphModule& gm, const Node* node) {
  if (!ir::is_module_call(node) && node->kind() != c10::prim::CallFunction) return false;
  constexpr std::array<std::string_view, 10> kNames{"MaxPool",        "max_pool",    "Dropout", "dropout",
                                                    "Flatten",        "Identity",    "ZeroPad", "ConstantPad",
                                                    "functional.pad", "PixelShuffle"};
  const auto targets = ir::targets(gm, node);
  return std::ranges::any_of(targets, [&](const Symbol& target) {
    return std::ranges::any_of(
        kNames, [&](std::string_view name) { return target.name.find(name) != std::string::npos; });
  });
}

/// Whether a node returns what it reads, moved, limited, shifted or scaled.
bool keeps_values(const GraphModule& gm, const Node* node, const Value* value) {
  if (node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::ListUnpack ||
      node->kind() == c10::prim::TupleConstruct || node->kind() == c10::prim::TupleUnpack)
    return true;
  if (is_one_of(node, kMoves)) return node->input(0) == value;
  if (!is_one_of(node, kLinear)) return clamp_bounds(gm, node) || is_module_that_moves(gm, node);
  const bool is_square = std::ranges::count(node->inputs(), value) > 1;
  return !is_square && std::ranges::all_of(node->inputs(), [&](const Value* input) {
    return input == value || is_number_or_constant(gm, input);
  });
}

class Search {
 public:
  explicit Search(const GraphModule& gm) : gm_(gm) {}

  bool is_amplified(const Value* value) {
    if (!seen_.insert(value).second) return false;
    return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
      if (use.user->kind() == c10::prim::Return) return is_amplified_outside(use);
      return amplifies(gm_, use.user, value) ||
             (keeps_values(gm_, use.user, value) &&
              std::ranges::any_of(use.user->outputs(),
                                  [&](const Value* each) { return is_amplified(each); }));
    });
  }

 private:
  bool is_amplified_outside(const torch::jit::Use& use) {
    const Node* owner = use.user->owningBlock()->owningNode();
    return owner != nullptr && owner->kind() == c10::prim::If && is_amplified(owner->output(use.offset));
  }

  const GraphModule& gm_;
  std::unordered_set<const Value*> seen_;
};

}  // namespace

bool is_amplified(const GraphModule& gm, const Value* value) { return Search(gm).is_amplified(value); }

}  // namespace tsq::operators
