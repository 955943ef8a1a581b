#pragma once

#include <vector>

#include "runtime/program/program.h"

/// What the reference is made of.
namespace tsq::runtime::test {

/// Real numbers in row-major order.
struct Real {
  Shape sizes{};
  std::vector<double> numbers{};

  double& at(const Shape& index) { return numbers[offset(index)]; }
  [[nodiscard]] double at(const Shape& index) const { return numbers[offset(index)]; }
  [[nodiscard]] std::size_t offset(const Shape& index) const {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) offset = offset * sizes[d] + index[d];
    return static_cast<std::size_t>(offset);
  }
};

inline Real zeros(const Shape& sizes) {
  return {sizes, std::vector<double>(static_cast<std::size_t>(elements_of(sizes)))};
}

template <typename Visit>
void for_each_index(const Shape& sizes, const Visit& visit) {
  Shape index(sizes.size(), 0);
  for (std::int64_t i = 0; i < elements_of(sizes); ++i) {
    visit(index);
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
}

inline double broadcast_at(const Real& real, const Shape& index) {
  Shape own(real.sizes.size());
  for (std::size_t d = 0; d < own.size(); ++d) {
    own[d] = real.sizes[d] == 1 ? 0 : index[d + index.size() - own.size()];
  }
  return real.at(own);
}

double reference_function(const PostOp& post_op, double x);
double reference_binary(Kind kind, double a, double b);
/// These fill `output`, which has its sizes; operations are resolved.
void reference_adaptive_pool(const Operation& operation, const Real& input, Real& output);
void reference_reduction(const Operation& operation, const Real& input, Real& output);
/// `mask` may be null.
void reference_attention(const Operation& operation, const Real& query, const Real& key, const Real& value,
                         const Real* mask, Real& output);
void reference_pad(const Operation& operation, const Real& input, Real& output);

/// Of a layer in one direction: for each gate a row for each state. Biases may be empty.
struct RecurrentWeights {
  std::vector<double> input{};
  std::vector<double> recurrent{};
  std::vector<double> bias{};
  std::vector<double> recurrent_bias{};
};
/// `inputs`: the sequence, then the first states that are given.
void reference_recurrent(const Operation& operation, const RecurrentWeights& weights,
                         const std::vector<const Real*>& inputs, Real& output);

}  // namespace tsq::runtime::test
