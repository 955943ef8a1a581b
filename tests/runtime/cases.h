#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/reference.h"
#include "runtime/support.h"

/// Random operations, compared with the reference.
namespace tsq::runtime::test {

inline constexpr unsigned kCases = 24;

/// Calls the program and compares each output: one step for int8 ones, a small part for float ones.
inline void expect_right(const Writer& writer, const std::vector<Tensor>& inputs, const Shape& integers = {},
                         double part = 1e-4) {
  LoadedProgram program(writer.model);
  const auto expected = reference(writer.model, inputs, integers);
  const auto got = run(program, inputs, 1, integers);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].sizes, expected[i].sizes);
    for (std::size_t n = 0; n < got[i].numbers.size(); ++n) {
      if (got[i].numbers[n] == expected[i].numbers[n]) continue;  // infinities
      if (std::isnan(got[i].numbers[n]) && std::isnan(expected[i].numbers[n])) continue;
      const double allowed = is_int8(got[i].dtype) ? 1 : part * (1 + std::abs(expected[i].numbers[n]));
      ASSERT_NEAR(got[i].numbers[n], expected[i].numbers[n], allowed) << "output " << i << ", element " << n;
    }
  }
}

/// Runs `check(random)` for many seeds.
template <typename Check>
void for_random_cases(const Check& check, unsigned cases = kCases) {
  for (unsigned seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    check(random);
    if (testing::Test::HasFatalFailure()) return;
  }
}

inline Dtype any_int8(Random& random) { return random.coin() ? Dtype::U8 : Dtype::S8; }
inline Dtype any_dtype(Random& random) { return random.any_of<Dtype>({Dtype::F32, Dtype::U8, Dtype::S8}); }

/// A scale with which sums of `length` products fill the range of 8 bits.
inline Value output_value(Random& random, Dtype dtype, double spread) {
  Value value = random_value(random, dtype);
  if (is_int8(dtype)) value.scale = spread * random.real(0.5, 2) / 128;
  return value;
}

/// One input, one operation, one output.
inline Writer single(Operation operation, const Value& input, const Value& output) {
  Writer writer;
  operation.inputs = {writer.input(input)};
  writer.returns({writer.add(operation, output)});
  return writer;
}

inline Shape image(Random& random, std::size_t dimensions, std::int64_t channels) {
  Shape sizes{random.integer(1, 2), channels};
  for (std::size_t d = 0; d < dimensions; ++d) sizes.push_back(random.integer(5, dimensions == 3 ? 7 : 11));
  return sizes;
}

inline PostOp any_function(Random& random) {
  const auto kind = static_cast<PostOpKind>(random.integer(0, static_cast<int>(PostOpKind::GeluTanh)));
  const bool clamp = kind == PostOpKind::Clamp;
  return {.kind = kind,
          .alpha = clamp ? random.real(-1, 0) : random.real(0.1, 1),
          .beta = clamp ? random.real(0.5, 6) : 0};
}

/// The attributes with which a kind takes an image of 8 channels.
inline Operation plain_operation(Kind kind) {
  Operation operation{.kind = kind};
  const bool adaptive = kind == Kind::AdaptiveAvgPool || kind == Kind::AdaptiveMaxPool;
  if (kind == Kind::MaxPool || kind == Kind::AvgPool) operation.kernel = {2, 2};
  if (kind == Kind::ResizeNearest || kind == Kind::ResizeBilinear || adaptive) operation.size = {4, 4};
  if (kind == Kind::Pad) operation.padding_begin = operation.padding_end = {1, 0};
  if (kind == Kind::Reshape) operation.shape = {0, -1};
  if (kind == Kind::Unflatten) operation.shape = {-1, 1};
  if (kind == Kind::Expand) operation.shape = {2, -1, -1, -1, -1};
  if (kind == Kind::Permute) operation.order = {0, -1, 1, 2};
  if (kind == Kind::GroupNorm) operation.groups = 2;
  if (kind == Kind::Slice) operation.step = 2;
  if (kind == Kind::Activation) operation.post_ops = {{.kind = PostOpKind::Silu}};
  operation.axis = kind == Kind::Flatten || kind == Kind::ScaleShift ? 1 : -1;
  return operation;
}

inline std::vector<std::string> implementations(const Writer& writer, const std::vector<Tensor>& inputs) {
  LoadedProgram program(writer.model);
  std::vector<std::string> names;
  for (const auto& step : compile(program, inputs)->steps()) names.push_back(step.implementation);
  return names;
}

}  // namespace tsq::runtime::test
