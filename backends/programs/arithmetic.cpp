#include <ATen/ATen.h>

#include <array>
#include <limits>

#include "backends/programs/operator_rows.h"
#include "backends/programs/translations.h"

namespace tsq::programs {
namespace {

using ir::Value;
using runtime::Kind;
using runtime::Operation;
using runtime::PostOpKind;

bool arithmetic(const Call& call, Kind kind, bool swapped = false) {
  if (call.argument("alpha") != nullptr && call.number("alpha") != 1) return false;
  if (call.argument("rounding_mode") != nullptr && !call.is_none("rounding_mode")) return false;
  // Sums of truth values are truth values, or whole numbers.
  const bool left_holds_truths = call.program.are_truths(call.node->input(0));
  const bool right_holds_truths = call.program.are_truths(call.node->input(1));
  if (left_holds_truths ? right_holds_truths || call.program.constant(call.node->input(1)).has_value()
                        : right_holds_truths && call.program.constant(call.node->input(0)).has_value())
    return false;
  auto left = call.operand(0);
  auto right = call.operand(1);
  if (!left || !right) return false;
  if (swapped) std::swap(left, right);
  call.program.define(call.node->output(), call.program.write({.kind = kind, .inputs = {*left, *right}}));
  return true;
}
template <Kind Function>
bool of_two(const Call& call) {
  return arithmetic(call, Function);
}
bool rsub(const Call& call) { return arithmetic(call, Kind::Sub, /*swapped=*/true); }

bool power(const Call& call) {
  const auto exponent = call.number("exponent");
  if (exponent == 2.0) return call.activation({.kind = PostOpKind::Square});
  return exponent && call.activation({.kind = PostOpKind::Pow, .alpha = *exponent});
}
bool softplus(const Call& call) {
  return call.number("beta") == 1 && call.activation({.kind = PostOpKind::Softplus});
}

bool matmul(const Call& call) { return call.write({.kind = Kind::Matmul}, 2); }

/// Numbers that are added to scores; of truth values minus infinity where a key is masked.
std::optional<int> mask_of_scores(const Call& call) {
  const Value* mask = call.argument("attn_mask");
  const auto truths = call.program.truths(mask);
  if (!truths) return call.program.tensor(mask);
  const auto number = [&](double value) {
    return call.program.constant_value(at::scalar_tensor(value, at::kFloat));
  };
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  return call.program.write({.kind = Kind::Where, .inputs = {*truths, number(0), number(kMasked)}});
}

/// Without dropout.
bool attention(const Call& call) {
  const auto causal = call.flag("is_causal");
  const auto scale = call.is_none("scale") ? std::optional(0.0) : call.number("scale");
  const bool repeats_heads = call.argument("enable_gqa") != nullptr && call.flag("enable_gqa") != false;
  if (call.number("dropout_p") != 0.0 || !causal || !scale || repeats_heads) return false;
  Operation operation{.kind = Kind::Attention, .alpha = *scale, .causal = *causal};
  if (call.is_none("attn_mask")) return call.write(std::move(operation), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto read = call.input(i);
    if (!read) return false;
    operation.inputs.push_back(*read);
  }
  const auto mask = mask_of_scores(call);
  if (!mask) return false;
  operation.inputs.push_back(*mask);
  call.program.define(call.node->output(), call.program.write(std::move(operation)));
  return true;
}

/// A parameter of a normalization: an index among the constants; empty for None.
struct Parameter {
  bool is_known{false};
  std::optional<int> index{};
};
Parameter parameter(const Call& call, const std::string& name) {
  const auto value = call.constant(name);
  if (!value) return {};
  if (value->isNone()) return {.is_known = true};
  if (!value->isTensor() || value->toTensor().scalar_type() != at::kFloat) return {};
  return {.is_known = true, .index = call.program.add_constant(value->toTensor())};
}

bool layer_norm(const Call& call) {
  const auto shape = call.shape("normalized_shape");
  const auto epsilon = call.number("eps");
  const Parameter weight = parameter(call, "weight");
  const Parameter bias = parameter(call, "bias");
  if (!shape || shape->size() != 1 || !epsilon || !weight.is_known || !bias.is_known) return false;
  return call.write(
      {.kind = Kind::LayerNorm, .weight = weight.index, .bias = bias.index, .epsilon = *epsilon});
}

bool group_norm(const Call& call) {
  const auto groups = call.whole("num_groups");
  const auto epsilon = call.number("eps");
  const Parameter weight = parameter(call, "weight");
  const Parameter bias = parameter(call, "bias");
  return groups && epsilon && weight.is_known && bias.is_known &&
         call.write({.kind = Kind::GroupNorm,
                     .weight = weight.index,
                     .bias = bias.index,
                     .groups = *groups,
                     .epsilon = *epsilon});
}

/// With statistics of training: a factor and an addend for each channel.
bool batch_norm(const Call& call) {
  const auto tensor = [&](const char* name) {
    const auto value = call.constant(name);
    return value && value->isTensor() ? value->toTensor().to(at::kFloat) : at::Tensor();
  };
  const at::Tensor mean = tensor("running_mean");
  const at::Tensor variance = tensor("running_var");
  const auto epsilon = call.number("eps");
  if (!mean.defined() || !variance.defined() || !epsilon || call.flag("training") != false) return false;
  const auto input = call.input();
  if (!input) return false;
  operators::BatchNorm norm{.weight = tensor("weight"),
                            .bias = tensor("bias"),
                            .running_mean = mean,
                            .running_var = variance,
                            .eps = *epsilon};
  call.program.define(call.node->output(), write_batch_norm(call.program, norm, *input));
  return true;
}

template <Kind kind>
bool softmax(const Call& call) {
  const auto axis = call.whole("dim");
  return axis && call.is_none("dtype") && call.write({.kind = kind, .axis = *axis});
}

constexpr std::array kArithmeticRows{
    OperatorRow{"aten::add", of_two<Kind::Add>},
    OperatorRow{"aten::mul", of_two<Kind::Mul>},
    OperatorRow{"aten::sub", of_two<Kind::Sub>},
    OperatorRow{"aten::rsub", rsub},
    OperatorRow{"aten::div", of_two<Kind::Div>},
    OperatorRow{"aten::maximum", of_two<Kind::Maximum>},
    OperatorRow{"aten::minimum", of_two<Kind::Minimum>},
    OperatorRow{"aten::pow", power},
    OperatorRow{"aten::softplus", softplus},
    OperatorRow{"aten::matmul", matmul},
    OperatorRow{"aten::bmm", matmul},
    OperatorRow{"aten::scaled_dot_product_attention", attention},
    OperatorRow{"aten::layer_norm", layer_norm},
    OperatorRow{"aten::group_norm", group_norm},
    OperatorRow{"aten::batch_norm", batch_norm},
    OperatorRow{"aten::softmax", softmax<Kind::Softmax>},
    OperatorRow{"aten::log_softmax", softmax<Kind::LogSoftmax>},
};

}  // namespace

std::span<const OperatorRow> arithmetic_rows() { return kArithmeticRows; }

}  // namespace tsq::programs
