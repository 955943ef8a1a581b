#include "runtime/program/fuse_attention.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/cases.h"

namespace tsq::runtime::test {
namespace fuse_attention_test {

/// softmax(q k^T / 2.5 + mask) v, as layers of a model write it.
struct Layers {
  Writer writer{};
  std::vector<Tensor> inputs{};
  Random random{1};
  int query = read({2, 3, 9, 8});
  int key = read({2, 3, 7, 8});
  int value = read({2, 3, 7, 5});

  int read(const Shape& sizes) {
    inputs.push_back(random_tensor(random, Dtype::F32, sizes));
    return writer.input(float_value());
  }
  int add(Operation operation) { return writer.add(std::move(operation), float_value()); }
  int number(double number) {
    return writer.constant_value(float_value(), {Dtype::F32, {}, {static_cast<float>(number)}});
  }
  int scores() {
    const int turned = add({.kind = Kind::Transpose, .inputs = {key}});
    return add({.kind = Kind::Matmul, .inputs = {query, turned}, .alpha = 0.5});
  }
  int average(int scores) {
    const int shares = add({.kind = Kind::Softmax, .inputs = {scores}});
    return add({.kind = Kind::Matmul, .inputs = {shares, value}});
  }
  ResolvedModel fused() {
    std::vector<Shape> shapes;
    for (const auto& input : inputs) shapes.push_back(input.sizes);
    return with_fused_attention(resolve(writer.model, shapes, {}));
  }
};

std::ptrdiff_t count_of(const ResolvedModel& resolved, Kind kind) {
  return std::ranges::count(resolved.model.program.operations, kind, &Operation::kind);
}

/// One attention stands for all products and the softmax, and computes the same.
void expect_fused(Layers& layers) {
  const auto fused = layers.fused();
  EXPECT_EQ(count_of(fused, Kind::Attention), 1);
  EXPECT_EQ(count_of(fused, Kind::Matmul) + count_of(fused, Kind::Softmax) + count_of(fused, Kind::Mul), 0);
  EXPECT_EQ(fused.shapes.size(), fused.model.program.values.size());
  LoadedProgram program(fused.model);
  const auto got = run(program, layers.inputs).front();
  const auto expected = reference(layers.writer.model, layers.inputs).front();
  ASSERT_EQ(got.sizes, expected.sizes);
  for (std::size_t i = 0; i < got.numbers.size(); ++i) {
    EXPECT_NEAR(got.numbers[i], expected.numbers[i], 1e-4);
  }
}

TEST(FuseAttention, TakesProductsAroundASoftmax) {
  Layers layers;
  layers.writer.returns({layers.average(layers.scores())});
  expect_fused(layers);
}

TEST(FuseAttention, TakesFactorsAndMasks) {
  for (const bool divides : {false, true}) {
    for (const bool mask_is_first : {false, true}) {
      Layers layers;
      const int plain = layers.scores();
      const int scaled = divides ? layers.add({.kind = Kind::Div, .inputs = {plain, layers.number(2.5)}})
                                 : layers.add({.kind = Kind::Mul, .inputs = {layers.number(0.4), plain}});
      const int mask = layers.read({2, 1, 1, 7});
      const std::vector<int> inputs = mask_is_first ? std::vector{mask, scaled} : std::vector{scaled, mask};
      layers.writer.returns({layers.average(layers.add({.kind = Kind::Add, .inputs = inputs}))});
      expect_fused(layers);
    }
  }
}

/// Values that are bytes beside float shares are floats for a product, but not for the attention.
TEST(FuseAttention, ReadsCodesInThePlaceOfTheirFloats) {
  Layers layers;
  const Value codes{.dtype = Dtype::U8, .scale = 0.02, .zero_point = 120};
  for (int* operand : {&layers.query, &layers.key, &layers.value}) {
    const auto sizes = layers.inputs[static_cast<std::size_t>(*operand)].sizes;
    layers.inputs.push_back(random_tensor(layers.random, Dtype::U8, sizes));
    *operand = layers.add({.kind = Kind::Convert, .inputs = {layers.writer.input(codes)}});
  }
  layers.writer.returns({layers.average(layers.scores())});
  expect_fused(layers);
  EXPECT_EQ(count_of(layers.fused(), Kind::Convert), 1) << "that of the keys, which are turned over after it";
}

/// A mask that is a product itself is none of the scores that are scaled.
TEST(FuseAttention, TakesTheSumOfTwoProducts) {
  Layers layers;
  const int scores = layers.scores();
  const int other = layers.scores();
  layers.writer.returns({layers.average(layers.add({.kind = Kind::Add, .inputs = {scores, other}}))});
  const auto fused = layers.fused();
  EXPECT_EQ(count_of(fused, Kind::Attention), 1);
  EXPECT_EQ(count_of(fused, Kind::Matmul), 1);
}

TEST(FuseAttention, LeavesWhatOthersRead) {
  Layers layers;
  const int scores = layers.scores();
  layers.writer.returns({layers.average(scores), scores});
  EXPECT_EQ(count_of(layers.fused(), Kind::Attention), 0);
}

TEST(FuseAttention, LeavesWhatIsRounded) {
  Layers layers;
  const int shares = layers.add({.kind = Kind::Softmax, .inputs = {layers.scores()}});
  const int rounded = layers.writer.add({.kind = Kind::Convert, .inputs = {shares}},
                                        {.dtype = Dtype::U8, .scale = 1.0 / 255});
  layers.writer.returns({layers.add({.kind = Kind::Matmul, .inputs = {rounded, layers.value}})});
  EXPECT_EQ(count_of(layers.fused(), Kind::Attention), 0);
}

TEST(FuseAttention, LeavesOtherSoftmaxesAndFactors) {
  Layers layers;
  const int scaled = layers.add({.kind = Kind::Mul, .inputs = {layers.scores(), layers.number(-1)}});
  const int along_queries = layers.add({.kind = Kind::Softmax, .inputs = {layers.scores()}, .axis = -2});
  layers.writer.returns(
      {layers.average(scaled), layers.add({.kind = Kind::Matmul, .inputs = {along_queries, layers.value}})});
  EXPECT_EQ(count_of(layers.fused(), Kind::Attention), 0);
}

}  // namespace fuse_attention_test
}  // namespace tsq::runtime::test
