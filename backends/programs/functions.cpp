#include <ATen/ATen.h>

#include <array>
#include <limits>

#include "backends/programs/operator_rows.h"

namespace tsq::programs {
namespace {

using runtime::Kind;
using runtime::PostOpKind;

template <PostOpKind Function>
bool function(const Call& call) {
  return call.activation({.kind = Function});
}
bool gelu(const Call& call) {
  const auto approximate = call.constant("approximate");
  const bool is_tanh = approximate && approximate->isString() && approximate->toStringRef() == "tanh";
  return call.activation({.kind = is_tanh ? PostOpKind::GeluTanh : PostOpKind::Gelu});
}
bool elu(const Call& call) {
  const auto alpha = call.number("alpha");
  return alpha && call.number("scale") == 1 && call.number("input_scale") == 1 &&
         call.activation({.kind = PostOpKind::Elu, .alpha = *alpha});
}
bool leaky_relu(const Call& call) {
  const auto slope = call.number("negative_slope");
  return slope && call.activation({.kind = PostOpKind::LeakyRelu, .alpha = *slope});
}
bool prelu(const Call& call) {
  const auto slopes = call.program.constant(call.node->input(1));
  if (!slopes || !slopes->isTensor()) return false;
  return call.write({.kind = Kind::Prelu, .weight = call.program.add_constant(slopes->toTensor())});
}
bool clamp_between(const Call& call, const std::string& lowest, const std::string& highest) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const auto low = call.is_none(lowest) ? std::optional(-kLargest) : call.number(lowest);
  const auto high = call.is_none(highest) ? std::optional(kLargest) : call.number(highest);
  return low && high && call.activation({.kind = PostOpKind::Clamp, .alpha = *low, .beta = *high});
}
bool clamp(const Call& call) { return clamp_between(call, "min", "max"); }
bool hardtanh(const Call& call) { return clamp_between(call, "min_val", "max_val"); }
bool relu6(const Call& call) { return call.activation({.kind = PostOpKind::Clamp, .alpha = 0, .beta = 6}); }

/// The tensor itself.
bool same(const Call& call) {
  const auto input = call.input();
  if (input) call.program.define(call.node->output(), *input);
  return input.has_value();
}
bool dropout(const Call& call) { return call.flag("train") == false && same(call); }

constexpr std::array kFunctionRows{
    OperatorRow{"aten::relu", function<PostOpKind::Relu>},
    OperatorRow{"aten::hardswish", function<PostOpKind::Hardswish>},
    OperatorRow{"aten::hardsigmoid", function<PostOpKind::Hardsigmoid>},
    OperatorRow{"aten::sigmoid", function<PostOpKind::Sigmoid>},
    OperatorRow{"aten::silu", function<PostOpKind::Silu>},
    OperatorRow{"aten::tanh", function<PostOpKind::Tanh>},
    OperatorRow{"aten::gelu", gelu},
    OperatorRow{"aten::elu", elu},
    OperatorRow{"aten::leaky_relu", leaky_relu},
    OperatorRow{"aten::clamp", clamp},
    OperatorRow{"aten::hardtanh", hardtanh},
    OperatorRow{"aten::relu6", relu6},
    OperatorRow{"aten::dropout", dropout},
    OperatorRow{"aten::contiguous", same},
    OperatorRow{"aten::alias", same},
    OperatorRow{"aten::detach", same},
    OperatorRow{"aten::exp", function<PostOpKind::Exp>},
    OperatorRow{"aten::log", function<PostOpKind::Log>},
    OperatorRow{"aten::sqrt", function<PostOpKind::Sqrt>},
    OperatorRow{"aten::rsqrt", function<PostOpKind::Rsqrt>},
    OperatorRow{"aten::square", function<PostOpKind::Square>},
    OperatorRow{"aten::abs", function<PostOpKind::Abs>},
    OperatorRow{"aten::neg", function<PostOpKind::Neg>},
    OperatorRow{"aten::mish", function<PostOpKind::Mish>},
    OperatorRow{"aten::prelu", prelu},
};

}  // namespace

std::span<const OperatorRow> function_rows() { return kFunctionRows; }

}  // namespace tsq::programs
