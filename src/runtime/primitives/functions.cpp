#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "runtime/primitives/epilogue.h"

namespace tsq::runtime {

Eltwise eltwise_of(const PostOp& post_op) {
  using enum dnnl::algorithm;
  const auto alpha = static_cast<float>(post_op.alpha);
  const auto beta = static_cast<float>(post_op.beta);
  constexpr float kSixth = 1.0F / 6.0F;
  switch (post_op.kind) {
    case PostOpKind::Relu:
      return {eltwise_relu, 0, 0};
    case PostOpKind::Clamp:
      return {eltwise_clip, alpha, beta};
    case PostOpKind::LeakyRelu:
      return {eltwise_relu, alpha, 0};
    case PostOpKind::Elu:
      return {eltwise_elu, alpha, 0};
    case PostOpKind::Hardswish:
      return {eltwise_hardswish, kSixth, 0.5F};
    case PostOpKind::Hardsigmoid:
      return {eltwise_hardsigmoid, kSixth, 0.5F};
    case PostOpKind::Sigmoid:
      return {eltwise_logistic, 0, 0};
    case PostOpKind::Silu:
      return {eltwise_swish, 1, 0};
    case PostOpKind::Tanh:
      return {eltwise_tanh, 0, 0};
    case PostOpKind::Gelu:
      return {eltwise_gelu_erf, 0, 0};
    case PostOpKind::GeluTanh:
      return {eltwise_gelu_tanh, 0, 0};
    case PostOpKind::Exp:
      return {eltwise_exp, 0, 0};
    case PostOpKind::Log:
      return {eltwise_log, 0, 0};
    case PostOpKind::Sqrt:
      return {eltwise_sqrt, 0, 0};
    case PostOpKind::Rsqrt:
      return {eltwise_pow, 1, -0.5F};
    case PostOpKind::Square:
      return {eltwise_square, 0, 0};
    case PostOpKind::Abs:
      return {eltwise_abs, 0, 0};
    case PostOpKind::Neg:
      return {eltwise_linear, -1, 0};
    case PostOpKind::Pow:
      return {eltwise_pow, 1, alpha};
    case PostOpKind::Linear:
      return {eltwise_linear, alpha, beta};
    case PostOpKind::Softplus:
      return {eltwise_soft_relu, 1, 0};
    case PostOpKind::Mish:
      return {eltwise_mish, 0, 0};
    case PostOpKind::Add:
    case PostOpKind::Mul:
      break;
  }
  return {eltwise_linear, 1, 0};
}

void append_function(dnnl::post_ops& post_ops, const PostOp& post_op) {
  const auto eltwise = eltwise_of(post_op);
  post_ops.append_eltwise(eltwise.algorithm, eltwise.alpha, eltwise.beta);
}

double function_of(const PostOp& post_op, double x) {
  switch (post_op.kind) {
    case PostOpKind::Relu:
      return std::max(x, 0.0);
    case PostOpKind::Clamp:
      return std::clamp(x, post_op.alpha, std::max(post_op.alpha, post_op.beta));
    case PostOpKind::LeakyRelu:
      return x < 0 ? post_op.alpha * x : x;
    case PostOpKind::Elu:
      return x < 0 ? post_op.alpha * std::expm1(x) : x;
    case PostOpKind::Hardswish:
      return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
    case PostOpKind::Hardsigmoid:
      return std::clamp(x / 6 + 0.5, 0.0, 1.0);
    case PostOpKind::Sigmoid:
      return 1 / (1 + std::exp(-x));
    case PostOpKind::Silu:
      return x / (1 + std::exp(-x));
    case PostOpKind::Tanh:
      return std::tanh(x);
    case PostOpKind::Gelu:
      return x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
    case PostOpKind::GeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case PostOpKind::Exp:
      return std::exp(x);
    case PostOpKind::Log:
      return std::log(x);
    case PostOpKind::Sqrt:
      return std::sqrt(x);
    case PostOpKind::Rsqrt:
      return 1 / std::sqrt(x);
    case PostOpKind::Square:
      return x * x;
    case PostOpKind::Abs:
      return std::abs(x);
    case PostOpKind::Neg:
      return -x;
    case PostOpKind::Pow:
      return std::pow(x, post_op.alpha);
    case PostOpKind::Linear:
      return post_op.alpha * x + post_op.beta;
    case PostOpKind::Softplus:
      return std::log1p(std::exp(x));
    case PostOpKind::Mish:
      return x * std::tanh(std::log1p(std::exp(x)));
    case PostOpKind::Add:
    case PostOpKind::Mul:
      break;
  }
  return x;
}

void narrow(Rounding& to, const View& output, const std::vector<PostOp>& post_ops) {
  const auto written = [&](double real) {
    const double number = real / output.scale + output.zero_point;
    return static_cast<float>(output.dtype == Dtype::F32 ? number : std::nearbyint(number));
  };
  for (const auto& post_op : post_ops) {
    const bool relu = post_op.kind == PostOpKind::Relu;
    const float low = written(relu ? 0 : post_op.alpha);
    to.low = std::clamp(low, to.low, to.high);
    if (!relu) to.high = std::clamp(written(std::max(post_op.alpha, post_op.beta)), to.low, to.high);
  }
}

}  // namespace tsq::runtime
