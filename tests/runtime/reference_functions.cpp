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
    case Kind::Equal:
      return a == b ? 1 : 0;
    case Kind::NotEqual:
      return a != b ? 1 : 0;
    case Kind::Less:
      return a < b ? 1 : 0;
    case Kind::LessEqual:
      return a <= b ? 1 : 0;
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
      if (size == 0) window[d] = 0;  // the mean of nothing is NaN
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
  const bool has_no_mean = operation.kind == Kind::Mean && input.numbers.empty();
  const double nothing = has_no_mean ? std::numeric_limits<double>::quiet_NaN() : 0;
  std::ranges::fill(output.numbers, largest ? -kInfinity : smallest ? kInfinity : nothing);
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

namespace {

/// Shares of the keys for one query; `index` is that of a score.
std::vector<double> attention_shares(const Operation& operation, const Real& query, const Real& key,
                                     const Real* mask, Shape index) {
  constexpr auto kInfinity = std::numeric_limits<double>::infinity();
  const auto rank = index.size();
  const auto width = query.sizes.back();
  const double alpha = operation.alpha > 0 ? operation.alpha : 1 / std::sqrt(static_cast<double>(width));
  const auto row = index[rank - 2];
  std::vector<double> shares;
  for (std::int64_t k = 0; k < key.sizes[key.sizes.size() - 2]; ++k) {
    double score = 0;
    for (std::int64_t d = 0; d < width; ++d) {
      index[rank - 1] = d;
      index[rank - 2] = row;
      const double left = broadcast_at(query, index);
      index[rank - 2] = k;
      score += alpha * left * broadcast_at(key, index);
    }
    index[rank - 2] = row;
    index[rank - 1] = k;
    if (mask != nullptr) score += broadcast_at(*mask, index);
    shares.push_back(operation.causal && k > row ? -kInfinity : score);
  }
  if (shares.empty()) return shares;
  const double most = *std::ranges::max_element(shares);
  double sum = 0;
  for (auto& share : shares) sum += share = std::exp(share - most);
  for (auto& share : shares) share /= sum;
  return shares;
}

}  // namespace

void reference_attention(const Operation& operation, const Real& query, const Real& key, const Real& value,
                         const Real* mask, Real& output) {
  const auto rank = output.sizes.size();
  for_each_index(Shape(output.sizes.begin(), output.sizes.end() - 1), [&](Shape index) {
    index.push_back(0);
    const auto shares = attention_shares(operation, query, key, mask, index);
    for (std::int64_t column = 0; column < output.sizes.back(); ++column) {
      auto from = index;
      index[rank - 1] = from[rank - 1] = column;
      for (std::size_t k = 0; k < shares.size(); ++k) {
        from[rank - 2] = static_cast<std::int64_t>(k);
        output.at(index) += shares[k] * broadcast_at(value, from);
      }
    }
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

namespace {

/// One sample's step of a recurrent layer.
class RecurrentCell {
 public:
  RecurrentCell(bool lstm, const RecurrentWeights& weights, std::vector<double> hidden,
                std::vector<double> cell)
      : lstm_(lstm), weights_(weights), hidden_(std::move(hidden)), cell_(std::move(cell)) {}

  void step(const double* input, std::size_t depth) {
    const auto width = hidden_.size();
    const auto before = hidden_;
    for (std::size_t i = 0; i < width; ++i) {
      const auto of_input = [&](std::size_t gate) {
        return product(weights_.input, weights_.bias, gate * width + i, input, depth);
      };
      const auto of_states = [&](std::size_t gate) {
        return product(weights_.recurrent, weights_.recurrent_bias, gate * width + i, before.data(), width);
      };
      if (lstm_) {
        const auto gate = [&](std::size_t which) { return of_input(which) + of_states(which); };
        cell_[i] = sigmoid(gate(1)) * cell_[i] + sigmoid(gate(0)) * std::tanh(gate(2));
        hidden_[i] = sigmoid(gate(3)) * std::tanh(cell_[i]);
      } else {
        const double update = sigmoid(of_input(1) + of_states(1));
        const double fresh = std::tanh(of_input(2) + sigmoid(of_input(0) + of_states(0)) * of_states(2));
        hidden_[i] = (1 - update) * fresh + update * before[i];
      }
    }
  }
  [[nodiscard]] const std::vector<double>& hidden() const { return hidden_; }
  [[nodiscard]] const std::vector<double>& cell() const { return cell_; }

 private:
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  static double product(const std::vector<double>& weights, const std::vector<double>& bias, std::size_t row,
                        const double* numbers, std::size_t count) {
    double sum = bias.empty() ? 0 : bias[row];
    for (std::size_t i = 0; i < count; ++i) sum += weights[row * count + i] * numbers[i];
    return sum;
  }

  bool lstm_;
  const RecurrentWeights& weights_;
  std::vector<double> hidden_;
  std::vector<double> cell_;
};

}  // namespace

void reference_recurrent(const Operation& operation, const RecurrentWeights& weights,
                         const std::vector<const Real*>& inputs, Real& output) {
  const auto steps = static_cast<std::size_t>(inputs[0]->sizes.front());
  const auto depth = static_cast<std::size_t>(inputs[0]->sizes.back());
  const auto width = static_cast<std::size_t>(output.sizes.back());
  const auto batch = inputs[0]->numbers.size() / steps / depth;
  const auto first_of = [&](std::size_t kind, std::size_t sample) {
    if (kind >= inputs.size()) return std::vector<double>(width, 0);
    const auto begin = inputs[kind]->numbers.begin() + static_cast<std::ptrdiff_t>(sample * width);
    return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(width));
  };
  const auto write = [&](std::size_t step, std::size_t sample, const std::vector<double>& states) {
    std::ranges::copy(states,
                      output.numbers.begin() + static_cast<std::ptrdiff_t>((step * batch + sample) * width));
  };
  for (std::size_t sample = 0; sample < batch; ++sample) {
    const bool lstm = operation.kind == Kind::Lstm;
    RecurrentCell cell(lstm, weights, first_of(1, sample), first_of(2, sample));
    for (std::size_t i = 0; i < steps; ++i) {
      const auto step = operation.backward ? steps - 1 - i : i;
      cell.step(inputs[0]->numbers.data() + (step * batch + sample) * depth, depth);
      write(step, sample, cell.hidden());
    }
    if (lstm) write(steps, sample, cell.cell());
  }
}

}  // namespace tsq::runtime::test
