// Attention against the reference, and what it leaves of the operations that it stands for.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "runtime/cases.h"

namespace tsq::runtime::test {
namespace attention_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A program of one attention, and what it is called with.
struct Attention {
  Writer writer{};
  Operation operation{.kind = Kind::Attention, .alpha = 0};
  std::vector<Tensor> inputs{};

  int read(Random& random, Dtype dtype, const Shape& sizes, double scale = 0.02) {
    Value value = random_value(random, dtype);
    if (is_int8(dtype)) value.scale = scale;
    inputs.push_back(random_tensor(random, dtype, sizes));
    return writer.input(value);
  }
  void expect_right(const Value& output) {
    writer.returns({writer.add(operation, output)});
    test::expect_right(writer, inputs);
  }
};

Shape with_outer(Shape outer, std::int64_t tokens, std::int64_t width) {
  outer.insert(outer.end(), {tokens, width});
  return outer;
}

/// Zeros, and minus infinity for some keys but the first.
Tensor random_mask(Random& random, const Shape& sizes) {
  Tensor mask = random_tensor(random, Dtype::F32, sizes);
  for (std::size_t i = 0; i < mask.numbers.size(); ++i) {
    const bool first = static_cast<std::int64_t>(i) % sizes.back() == 0;
    if (!first && random.coin()) mask.numbers[i] = -kInfinity;
  }
  return mask;
}

TEST(Operations, AttendsInAnyShape) {
  for_random_cases(
      [](Random& random) {
        Attention attention;
        const auto outer = random.any_of<Shape>({{}, {3}, {2, 3}, {1, 2, 2}});
        const auto queries = random.any_of<std::int64_t>({1, 2, 5, 7, 33, 64});
        const auto keys = random.any_of<std::int64_t>({1, 3, 7, 17, 40, 64});
        const auto width = random.any_of<std::int64_t>({1, 3, 8, 30, 32, 65, 80});
        const auto value_width = random.any_of<std::int64_t>({1, 8, 20, 32, 80});
        attention.operation.alpha = random.any_of<double>({0, 0.2});
        attention.operation.causal = random.integer(0, 3) == 0;
        const bool shared = !outer.empty() && random.coin();  // keys and values of all heads
        const Shape other = shared ? Shape(outer.size(), 1) : outer;
        attention.operation.inputs = {
            attention.read(random, any_dtype(random), with_outer(outer, queries, width)),
            attention.read(random, any_dtype(random), with_outer(other, keys, width)),
            attention.read(random, any_dtype(random), with_outer(other, keys, value_width))};
        if (random.coin()) {
          const auto sizes = random.any_of<Shape>({{queries, keys}, {1, keys}, {keys}});
          attention.operation.inputs.push_back(attention.writer.input(float_value()));
          attention.inputs.push_back(random_mask(random, sizes));
        }
        attention.expect_right(output_value(random, any_dtype(random), 3));
      },
      200);
}

TEST(Operations, AttendsToManyTokens) {
  for (const auto dtype : {Dtype::F32, Dtype::U8, Dtype::S8}) {
    for (const auto tokens : {128, 196, 197, 512, 600}) {
      Random random(static_cast<unsigned>(tokens));
      Attention attention;
      const auto heads = tokens < 512 ? 3 : 1;
      for (int i = 0; i < 3; ++i) {
        attention.operation.inputs.push_back(attention.read(random, dtype, {1, heads, tokens, 32}));
      }
      attention.expect_right(output_value(random, dtype, 1));
    }
  }
}

/// Sums of bytes and of words stay within 32 bits.
TEST(Operations, AttendsToTheLargestNumbers) {
  for (const double query : {0, 255}) {
    for (const auto value : {Value{.dtype = Dtype::U8, .scale = 0.01, .zero_point = 0},
                             Value{.dtype = Dtype::U8, .scale = 0.01, .zero_point = 255}}) {
      Attention attention;
      for (int i = 0; i < 3; ++i) {
        attention.operation.inputs.push_back(attention.writer.input(value));
        attention.inputs.push_back({Dtype::U8, {600, 64}, std::vector<double>(600 * 64, query)});
      }
      attention.expect_right(float_value());
    }
  }
}

/// What PyTorch's softmax gives for scores of minus infinity.
TEST(Operations, AttendsToNothingWhereEveryKeyIsMasked) {
  for (const auto dtype : {Dtype::F32, Dtype::U8}) {
    Random random(1);
    Attention attention;
    for (int i = 0; i < 3; ++i) attention.operation.inputs.push_back(attention.read(random, dtype, {5, 8}));
    attention.operation.inputs.push_back(attention.writer.input(float_value()));
    Tensor mask{Dtype::F32, {5, 5}, std::vector<double>(25, 0)};
    std::fill_n(mask.numbers.begin() + 5, 5, -kInfinity);
    std::fill_n(mask.numbers.begin() + 10, 5, std::numeric_limits<float>::lowest());
    attention.inputs.push_back(mask);
    attention.writer.returns({attention.writer.add(attention.operation, float_value())});
    LoadedProgram program(attention.writer.model);
    const auto got = run(program, attention.inputs).front();
    const auto expected = reference(attention.writer.model, attention.inputs).front();
    for (std::size_t i = 0; i < got.numbers.size(); ++i) {
      EXPECT_EQ(std::isnan(got.numbers[i]), i / 8 == 1);
      if (i / 8 == 1) continue;
      EXPECT_NEAR(got.numbers[i], expected.numbers[i], 1e-4);
    }
  }
}

/// Heads that are slices of one product are read and written as they lie.
TEST(Operations, AttendsWithoutCopies) {
  for (const auto dtype : {Dtype::F32, Dtype::U8}) {
    Random random(1);
    Attention attention;
    auto& writer = attention.writer;
    const Value value = random_value(random, dtype);
    const int joined = writer.input(value);
    attention.inputs = {random_tensor(random, dtype, {2, 10, 96})};
    const auto add = [&](Operation operation) { return writer.add(std::move(operation), value); };
    for (std::int64_t i = 0; i < 3; ++i) {
      const int part = add({.kind = Kind::Slice, .inputs = {joined}, .begin = i * 32, .end = i * 32 + 32});
      const int split = add({.kind = Kind::Reshape, .inputs = {part}, .shape = {0, 0, 4, 8}});
      attention.operation.inputs.push_back(
          add({.kind = Kind::Permute, .inputs = {split}, .order = {0, 2, 1, 3}}));
    }
    const int heads = add(attention.operation);
    const int tokens = add({.kind = Kind::Permute, .inputs = {heads}, .order = {0, 2, 1, 3}});
    const int rows = add({.kind = Kind::Reshape, .inputs = {tokens}, .shape = {0, 0, -1}});
    writer.returns({add({.kind = Kind::Add, .inputs = {rows, rows}})});
    expect_right(writer, attention.inputs);
    EXPECT_EQ(implementations(writer, attention.inputs),
              (std::vector<std::string>{"tsq:attention", "tsq:add"}));
  }
}

TEST(Operations, AttendsWithTheSameBitsOnAnyCountOfThreads) {
  Random random(1);
  Attention attention;
  for (int i = 0; i < 3; ++i) {
    attention.operation.inputs.push_back(attention.read(random, Dtype::U8, {3, 70, 16}));
  }
  attention.writer.returns({attention.writer.add(attention.operation, float_value())});
  LoadedProgram program(attention.writer.model);
  const auto alone = run(program, attention.inputs, 1).front().numbers;
  for (const int threads : {2, 3, 5, 16}) {
    EXPECT_EQ(run(program, attention.inputs, threads).front().numbers, alone);
  }
}

}  // namespace attention_test
}  // namespace tsq::runtime::test
