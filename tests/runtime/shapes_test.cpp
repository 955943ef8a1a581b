// Numbers of shapes that each call computes, against PyTorch's and Python's rules.
#include <gtest/gtest.h>

#include "runtime/program/error.h"
#include "runtime/program/resolve.h"
#include "runtime/support.h"

namespace tsq::runtime::test {
namespace shapes_test {

/// The shape that one operation on a float tensor of these sizes writes.
Shape shape_after(Operation operation, const Shape& sizes) {
  Writer writer;
  operation.inputs = {writer.input(float_value())};
  const int output = writer.add(operation, float_value());
  return resolve(writer.model, std::vector<Shape>{sizes}, {}).shapes[static_cast<std::size_t>(output)];
}

/// The number that a row gives, as the size of a slice of a long tensor.
std::int64_t number_of(IntegerKind kind, std::int64_t left, std::int64_t right) {
  Writer writer;
  Operation slice{.kind = Kind::Slice, .inputs = {writer.input(float_value())}};
  slice.end = writer.integer({.kind = kind, .left = left, .right = right});
  slice.end = writer.integer({.kind = IntegerKind::Add, .left = slice.end, .right = 50});
  const int output = writer.add(slice, float_value());
  const auto resolved = resolve(writer.model, std::vector<Shape>{{100}}, {});
  return resolved.shapes[static_cast<std::size_t>(output)][0] - 50;
}

TEST(Integers, AreComputedAsInPython) {
  EXPECT_EQ(number_of(IntegerKind::Add, 7, -2), 5);
  EXPECT_EQ(number_of(IntegerKind::Subtract, 7, -2), 9);
  EXPECT_EQ(number_of(IntegerKind::Multiply, 7, -2), -14);
  EXPECT_EQ(number_of(IntegerKind::FloorDivide, 7, 2), 3);
  EXPECT_EQ(number_of(IntegerKind::FloorDivide, -7, 2), -4);
  EXPECT_EQ(number_of(IntegerKind::FloorDivide, 7, -2), -4);
  EXPECT_EQ(number_of(IntegerKind::FloorDivide, 7, -1), -7);
  EXPECT_EQ(number_of(IntegerKind::Remainder, 7, 3), 1);
  EXPECT_EQ(number_of(IntegerKind::Remainder, -7, 3), 2);
  EXPECT_EQ(number_of(IntegerKind::Remainder, 7, -3), -2);
  EXPECT_EQ(number_of(IntegerKind::Remainder, 7, -1), 0);
  EXPECT_EQ(number_of(IntegerKind::Minimum, 7, -1), -1);
  EXPECT_EQ(number_of(IntegerKind::Maximum, 7, -1), 7);
  EXPECT_EQ(number_of(IntegerKind::Index, 6, 7), 6);
  EXPECT_EQ(number_of(IntegerKind::Index, -7, 7), 0);
  EXPECT_EQ(number_of(IntegerKind::Border, 7, 7), 7);
  EXPECT_EQ(number_of(IntegerKind::Border, -1, 7), 6);
}

TEST(Integers, ThatHaveNoResultAreErrors) {
  EXPECT_THROW((void)number_of(IntegerKind::FloorDivide, 7, 0), ProgramError);
  EXPECT_THROW((void)number_of(IntegerKind::Remainder, 7, 0), ProgramError);
  constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW((void)number_of(IntegerKind::Multiply, kLargest, 2), ProgramError);
  EXPECT_THROW((void)number_of(IntegerKind::FloorDivide, -kLargest - 1, -1), ProgramError);
  EXPECT_THROW((void)number_of(IntegerKind::Index, 7, 7), ProgramError);
  EXPECT_THROW((void)number_of(IntegerKind::Index, -8, 7), ProgramError);
  EXPECT_THROW((void)number_of(IntegerKind::Border, 8, 7), ProgramError);
}

/// The heads of attention: x.view(x.size(0), x.size(1), given, x.size(2) // given).
TEST(Integers, OfSizesAndOfTheCallMakeShapes) {
  Writer writer;
  writer.model.program.given_integers = 2;
  const int input = writer.input(float_value());
  const int moved = writer.add({.kind = Kind::Convert, .inputs = {input}}, float_value());
  const auto size = [&](std::int64_t axis) {
    return writer.integer({.kind = IntegerKind::Size, .value = moved, .axis = axis});
  };
  const auto heads = writer.integer({.kind = IntegerKind::Given, .axis = 1});
  const auto width = writer.integer({.kind = IntegerKind::FloorDivide, .left = size(-1), .right = heads});
  const int split = writer.add(
      {.kind = Kind::Reshape, .inputs = {moved}, .shape = {size(0), size(1), heads, width}}, float_value());
  writer.returns({split});
  LoadedProgram program(writer.model);
  Random random(1);
  const auto tensor = random_tensor(random, Dtype::F32, {2, 5, 24});
  EXPECT_EQ(run(program, {tensor}, 1, {0, 4}).front().sizes, (Shape{2, 5, 4, 6}));
  EXPECT_EQ(run(program, {tensor}, 1, {0, 3}).front().sizes, (Shape{2, 5, 3, 8}));
}

TEST(Views, NeedNoRankInTheProgram) {
  const Shape sizes{2, 3, 4, 5};
  EXPECT_EQ(shape_after({.kind = Kind::Transpose}, sizes), (Shape{2, 3, 5, 4}));
  EXPECT_EQ(shape_after({.kind = Kind::Transpose, .axis = 0, .other_axis = -1}, sizes), (Shape{5, 3, 4, 2}));
  EXPECT_EQ(shape_after({.kind = Kind::Permute, .order = {0, -1, 1, -2}}, sizes), (Shape{2, 5, 3, 4}));
  EXPECT_EQ(shape_after({.kind = Kind::Unsqueeze, .axis = -1}, sizes), (Shape{2, 3, 4, 5, 1}));
  EXPECT_EQ(shape_after({.kind = Kind::Unsqueeze, .axis = 0}, {}), (Shape{1}));
  EXPECT_EQ(shape_after({.kind = Kind::Squeeze, .axis = 1}, {2, 1, 3}), (Shape{2, 3}));
  EXPECT_EQ(shape_after({.kind = Kind::Squeeze, .axis = -1}, {2, 1, 3}), (Shape{2, 1, 3}));
  EXPECT_EQ(shape_after({.kind = Kind::Flatten, .axis = 1}, sizes), (Shape{2, 60}));
  EXPECT_EQ(shape_after({.kind = Kind::Unflatten, .axis = -1, .shape = {5, 1}}, sizes),
            (Shape{2, 3, 4, 5, 1}));
  EXPECT_EQ(shape_after({.kind = Kind::Flatten, .axis = -3, .end_axis = -2}, sizes), (Shape{2, 12, 5}));
  EXPECT_EQ(shape_after({.kind = Kind::Expand, .shape = {7, -1, 3}}, {4, 1}), (Shape{7, 4, 3}));
}

TEST(Views, ThatDoNotFitAreErrors) {
  EXPECT_THROW((void)shape_after({.kind = Kind::Transpose, .axis = 3}, {2, 3}), ProgramError);
  EXPECT_THROW((void)shape_after({.kind = Kind::Permute, .order = {0, -2}}, {2, 3}), ProgramError);
  EXPECT_THROW((void)shape_after({.kind = Kind::Unsqueeze, .axis = 3}, {2, 3}), ProgramError);
  EXPECT_THROW((void)shape_after({.kind = Kind::Expand, .shape = {4, 3}}, {2, 3}), ProgramError);
  EXPECT_THROW((void)shape_after({.kind = Kind::Expand, .shape = {3}}, {2, 3}), ProgramError);
}

TEST(Slices, CountFromTheEndAndStopAtTheBorders) {
  const auto slice = [](Extent begin, Extent end, std::int64_t step = 1) {
    return shape_after({.kind = Kind::Slice, .axis = -2, .begin = begin, .end = end, .step = step},
                       {10, 3})[0];
  };
  EXPECT_EQ(slice(-3, Operation{}.end), 3);
  EXPECT_EQ(slice(0, -1), 9);
  EXPECT_EQ(slice(-99, 4), 4);
  EXPECT_EQ(slice(2, 99), 8);
  EXPECT_EQ(slice(0, 99, 3), 4);
  EXPECT_EQ(slice(1, 10, 3), 3);
  EXPECT_EQ(slice(4, 4), 0);
  EXPECT_EQ(slice(20, 30), 0);
}

TEST(Slices, ReadEveryNthElement) {
  Writer writer;
  const int input = writer.input(float_value());
  writer.returns(
      {writer.add({.kind = Kind::Slice, .inputs = {input}, .axis = 0, .begin = -6, .end = 99, .step = 2},
                  float_value())});
  LoadedProgram program(writer.model);
  const auto output = run(program, {{Dtype::F32, {7}, {0, 1, 2, 3, 4, 5, 6}}}).front();
  EXPECT_EQ(output.numbers, (std::vector<double>{1, 3, 5}));
}

}  // namespace shapes_test
}  // namespace tsq::runtime::test
