// What one primitive computes becomes one operation, once the shapes are known.
#include "runtime/program/fuse_operations.h"

#include <gmock/gmock.h>

#include "runtime/support.h"

namespace tsq::runtime::test {
namespace fuse_operations_test {

using ::testing::ElementsAre;

const Value kCodes{.dtype = Dtype::U8, .scale = 0.02, .zero_point = 128};

std::vector<Operation> fused(const Writer& writer, const std::vector<Shape>& inputs) {
  return with_fused_operations(resolve(writer.model, inputs, {})).model.program.operations;
}

std::vector<Kind> kinds_of(const std::vector<Operation>& operations) {
  std::vector<Kind> kinds;
  for (const Operation& operation : operations) kinds.push_back(operation.kind);
  return kinds;
}

std::vector<PostOpKind> post_ops_of(const Operation& operation) {
  std::vector<PostOpKind> kinds;
  for (const PostOp& post_op : operation.post_ops) kinds.push_back(post_op.kind);
  return kinds;
}

class FuseOperations : public testing::Test {
 protected:
  /// A convolution of codes that returns floats.
  int convolution(int input) {
    Operation operation{.kind = Kind::Convolution, .inputs = {input}};
    add_weights(random_, writer_, operation, {8, 8, 1, 1}, 8);
    return writer_.add(operation, float_value());
  }
  int relu(int input) {
    return writer_.add(
        {.kind = Kind::Activation, .inputs = {input}, .post_ops = {{.kind = PostOpKind::Relu}}},
        float_value());
  }
  int rounded(int input) { return writer_.add({.kind = Kind::Convert, .inputs = {input}}, kCodes); }
  int sum(int left, int right) {
    return writer_.add({.kind = Kind::Add, .inputs = {left, right}}, float_value());
  }

  Random random_{1};
  Writer writer_{};
  const Shape image_{1, 8, 4, 4};
};

TEST_F(FuseOperations, AFunctionAndTheRoundingBecomePartOfTheLayer) {
  const int input = writer_.input(kCodes);
  writer_.returns({rounded(relu(convolution(input)))});
  const auto operations = fused(writer_, {image_});
  ASSERT_THAT(kinds_of(operations), ElementsAre(Kind::Convolution));
  EXPECT_THAT(post_ops_of(operations[0]), ElementsAre(PostOpKind::Relu));
}

TEST_F(FuseOperations, TheLaterOfTwoLayersTakesTheirSum) {
  const int input = writer_.input(kCodes);
  const int first = rounded(convolution(input));
  const int second = convolution(rounded(relu(convolution(input))));
  writer_.returns({rounded(relu(sum(first, second)))});
  const auto operations = fused(writer_, {image_});
  ASSERT_THAT(kinds_of(operations), ElementsAre(Kind::Convolution, Kind::Convolution, Kind::Convolution));
  EXPECT_THAT(post_ops_of(operations[2]), ElementsAre(PostOpKind::Add, PostOpKind::Relu));
  EXPECT_EQ(operations[2].post_ops[0].value, first);
}

TEST_F(FuseOperations, ALayerThatIsSpreadOverALargerTensorTakesNoProduct) {
  const int image = writer_.input(kCodes);
  const int gate = convolution(writer_.input(kCodes));
  writer_.returns({writer_.add({.kind = Kind::Mul, .inputs = {image, gate}}, float_value())});
  EXPECT_THAT(kinds_of(fused(writer_, {image_, {1, 8, 1, 1}})), ElementsAre(Kind::Convolution, Kind::Mul));
}

TEST_F(FuseOperations, AConstantForEachChannelIsAFactorOfTheLayer) {
  const auto with_factors = [&](const Shape& shape) {
    Writer writer;
    Random random{2};
    Operation operation{.kind = Kind::Convolution, .inputs = {writer.input(kCodes)}};
    add_weights(random, writer, operation, {8, 8, 1, 1}, 8);
    const int made = writer.add(operation, float_value());
    const int function = writer.add(
        {.kind = Kind::Activation, .inputs = {made}, .post_ops = {{.kind = PostOpKind::Hardswish}}},
        float_value());
    const int factors = writer.constant_value(float_value(), random_tensor(random, Dtype::F32, shape));
    const int product = writer.add({.kind = Kind::Mul, .inputs = {function, factors}}, float_value());
    writer.returns({writer.add({.kind = Kind::Convert, .inputs = {product}}, kCodes)});
    return fused(writer, {image_});
  };
  const auto operations = with_factors({8, 1, 1});
  ASSERT_THAT(kinds_of(operations), ElementsAre(Kind::Convolution));
  EXPECT_THAT(post_ops_of(operations[0]), ElementsAre(PostOpKind::Hardswish, PostOpKind::Mul));
  EXPECT_THAT(kinds_of(with_factors({4, 1})), ElementsAre(Kind::Convolution, Kind::Mul))
      << "one for each row";
}

TEST_F(FuseOperations, WhatIsReadTwiceStays) {
  const int layer = convolution(writer_.input(kCodes));
  writer_.returns({relu(layer), layer});
  EXPECT_THAT(kinds_of(fused(writer_, {image_})), ElementsAre(Kind::Convolution, Kind::Activation));
}

TEST_F(FuseOperations, ViewsMoveBytesRatherThanFloats) {
  const int layer = convolution(writer_.input(kCodes));
  const int view = writer_.add({.kind = Kind::Transpose, .inputs = {layer}}, float_value());
  writer_.returns({rounded(view)});
  const auto operations = fused(writer_, {image_});
  ASSERT_THAT(kinds_of(operations), ElementsAre(Kind::Convolution, Kind::Permute));
  const auto written = static_cast<std::size_t>(operations[1].inputs[0]);
  EXPECT_EQ(operations[0].output, static_cast<int>(written));
}

TEST_F(FuseOperations, ASliceOfTheCallersTensorIsRoundedAndNotTheTensor) {
  const int slice = writer_.add(
      {.kind = Kind::Slice, .inputs = {writer_.input(float_value())}, .axis = 0, .begin = 3, .end = 4},
      float_value());
  const int squeezed = writer_.add({.kind = Kind::Squeeze, .inputs = {slice}, .axis = 0}, float_value());
  writer_.returns({convolution(rounded(squeezed))});
  EXPECT_THAT(kinds_of(fused(writer_, {{9, 1, 8, 4, 4}})),
              ElementsAre(Kind::Slice, Kind::Reshape, Kind::Convert, Kind::Convolution));
}

TEST_F(FuseOperations, AFactorOfAProductScalesIt) {
  const int left = writer_.input(float_value());
  const int right = writer_.input(float_value());
  const int product = writer_.add({.kind = Kind::Matmul, .inputs = {left, right}}, float_value());
  const int factor =
      writer_.constant_value(float_value(), {.dtype = Dtype::F32, .sizes = {}, .numbers = {0.25}});
  writer_.returns({writer_.add({.kind = Kind::Mul, .inputs = {product, factor}}, float_value())});
  const auto operations = fused(writer_, {{4, 8}, {8, 4}});
  ASSERT_THAT(kinds_of(operations), ElementsAre(Kind::Matmul));
  EXPECT_DOUBLE_EQ(operations[0].alpha, 0.25);
}

TEST_F(FuseOperations, AProductOfFloatsIsRoundedByItself) {
  const int left = writer_.input(float_value());
  const int right = writer_.input(float_value());
  writer_.returns({rounded(writer_.add({.kind = Kind::Matmul, .inputs = {left, right}}, float_value()))});
  EXPECT_THAT(kinds_of(fused(writer_, {{4, 8}, {8, 4}})), ElementsAre(Kind::Matmul, Kind::Convert));
}

}  // namespace fuse_operations_test
}  // namespace tsq::runtime::test
