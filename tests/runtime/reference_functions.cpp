#include "runtime/reference_functions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tsq::runtime::test {

double reference_function(const PostOp& post_op, double x) {
  switch (post_op.kind) {
    case PostOpKind::Relu:
      return x > 0 ? x : 0;
    case PostOpKind::Clamp:
      return std::min(std::max(x, post_op.alpha), post_op.beta);
    case PostOpKind::LeakyRelu:
      return x > 0 ? x : post_op.alpha * x;
    case PostOpKind::Elu:
      return x > 0 ? x : post_op.alpha * (std::exp(x) - 1);
    case PostOpKind::Hardswish:
      return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case PostOpKind::Hardsigmoid:
      return std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case PostOpKind::Sigmoid:
      return 1 / (1 + std::exp(-x));
    case PostOpKind::Silu:
      return x / (1 + std::exp(-x));
    case PostOpKind::Tanh:
      return std::tanh(x);
    case PostOpKind::Gelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case PostOpKind::GeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * std::pow(x, 3))));
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
      return std::log(1 + std::exp(x));
    case PostOpKind::Mish:
      return x * std::tanh(std::log(1 + std::exp(x)));
    default:
      return x;
  }
}

double reference_binary(Kind kind, double a, double b) {
  switch (kind) {
    case Kind::Add:
      return a + b;
    case Kind::Sub:
      return a - b;
    case Kind::Mul:
      return a * b;
    case Kind::Div:
      return a / b;
    case Kind::Maximum:
      return std::max(a, b);
    default:
      return std::min(a, b);
  }
}

void reference_adaptive_pool(const Operation& operation, const Real& input, Real& output) {
  const bool largest = operation.kind == Kind::AdaptiveMaxPool;
  const auto dimensions = input.sizes.size();
  for_each_index(output.sizes, [&](const Shape& index) {
    Shape first = index;
    Shape window(dimensions, 1);
    for (std::size_t d = 2; d < dimensions; ++d) {
      const auto size = input.sizes[d];
      first[d] = index[d] * size / output.sizes[d];
      while ((first[d] + window[d]) * output.sizes[d] < (index[d] + 1) * size) ++window[d];
    }
    double sum = 0;
    double most = -std::numeric_limits<double>::infinity();
    for_each_index(window, [&](const Shape& tap) {
      Shape from = first;
      for (std::size_t d = 0; d < dimensions; ++d) from[d] += tap[d];
      sum += input.at(from);
      most = std::max(most, input.at(from));
    });
    output.at(index) = largest ? most : sum / static_cast<double>(elements_of(window));
  });
}

void reference_reduction(const Operation& operation, const Real& input, Real& output) {
  constexpr auto kInfinity = std::numeric_limits<double>::infinity();
  const bool largest = operation.kind == Kind::Amax;
  const bool smallest = operation.kind == Kind::Amin;
  std::ranges::fill(output.numbers, largest ? -kInfinity : smallest ? kInfinity : 0);
  const double share = operation.kind == Kind::Mean ? static_cast<double>(elements_of(output.sizes)) /
                                                          static_cast<double>(elements_of(input.sizes))
                                                    : 1;
  for_each_index(input.sizes, [&](const Shape& index) {
    Shape to;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const bool gone = std::ranges::count(operation.axes, static_cast<std::int64_t>(d)) > 0;
      if (!gone) to.push_back(index[d]);
      if (gone && operation.keep_dims) to.push_back(0);
    }
    auto& result = output.at(to);
    const double number = input.at(index);
    result = largest    ? std::max(result, number)
             : smallest ? std::min(result, number)
                        : result + number * share;
  });
}

void reference_pad(const Operation& operation, const Real& input, Real& output) {
  std::ranges::fill(output.numbers, operation.fill);
  for_each_index(input.sizes, [&](Shape index) {
    const double number = input.at(index);
    const auto first = index.size() - operation.padding_begin.size();
    for (std::size_t d = first; d < index.size(); ++d) index[d] += operation.padding_begin[d - first];
    output.at(index) = number;
  });
}

}  // namespace tsq::runtime::test
