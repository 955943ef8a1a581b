// Integers of a call that change no shape: slices move, and the compiled program stays the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/cases.h"
#include "runtime/program/error.h"
#include "runtime/support.h"

namespace tsq::runtime::test {
namespace moving_slices_test {

/// What x[:, i] and others of a loop's step are, between operations that compute.
struct Step {
  Writer writer{};
  Extent place{};

  explicit Step(int integers = 1) {
    writer.model.program.given_integers = integers;
    place = given(0);
  }
  Extent given(int index) { return writer.integer({.kind = IntegerKind::Given, .axis = index}); }
  Extent sum(Extent left, Extent right) {
    return writer.integer({.kind = IntegerKind::Add, .left = left, .right = right});
  }
  Extent size_of(int value, std::int64_t axis) {
    return writer.integer({.kind = IntegerKind::Size, .value = value, .axis = axis});
  }
  Extent index(Extent at, int value, std::int64_t axis) {
    return writer.integer({.kind = IntegerKind::Index, .left = at, .right = size_of(value, axis)});
  }
  int slice(int value, std::int64_t axis, Extent begin, Extent end, std::int64_t step = 1) {
    const Value type = writer.model.program.values[static_cast<std::size_t>(value)];
    return writer.add(
        {.kind = Kind::Slice, .inputs = {value}, .axis = axis, .begin = begin, .end = end, .step = step},
        {.dtype = type.dtype, .scale = type.scale, .zero_point = type.zero_point});
  }
  int function(int value, PostOpKind kind = PostOpKind::Gelu) {
    return writer.add({.kind = Kind::Activation, .inputs = {value}, .post_ops = {{.kind = kind}}},
                      float_value());
  }
};

TEST(MovingSlices, HaveTheirNumbersAndNeedOneProgram) {
  for_random_cases([](Random& random) {
    Step step;
    const Value type = random_value(random, any_dtype(random));
    const int input = step.writer.input(type);
    // Read from the caller's tensor, from the arena, from a constant, and from a slice.
    const int inner = step.function(input);
    const int table = step.writer.constant_value(float_value(), random_tensor(random, Dtype::F32, {20, 3}));
    const auto begin = step.index(step.place, input, 1);
    const int first = step.slice(input, 1, begin, step.sum(begin, 1));
    const int second = step.slice(inner, 1, step.place, step.sum(step.place, 2));
    const int third = step.slice(table, 0, step.place, step.sum(step.place, 1));
    const int fourth = step.slice(second, 1, random.integer(0, 1), 2);
    const int joined = step.writer.add(
        {.kind = Kind::Concat, .inputs = {second, step.function(fourth)}, .axis = 1}, float_value());
    const int sum = step.writer.add({.kind = Kind::Add, .inputs = {joined, third}}, float_value());
    step.writer.returns({step.function(first), sum, second});
    const std::vector<Tensor> inputs{random_tensor(random, type.dtype, {2, 20, 3})};
    LoadedProgram program(step.writer.model);
    for (std::int64_t at = 0; at < 19; ++at) {
      const auto expected = reference(step.writer.model, inputs, {at});
      const auto got = run(program, inputs, static_cast<int>(random.integer(1, 2)), {at});
      for (std::size_t o = 0; o < got.size(); ++o) {
        ASSERT_EQ(got[o].sizes, expected[o].sizes);
        for (std::size_t n = 0; n < got[o].numbers.size(); ++n)
          ASSERT_NEAR(got[o].numbers[n], expected[o].numbers[n], is_int8(got[o].dtype) ? 1 : 1e-3);
      }
    }
    EXPECT_LE(program.compiled_programs(), 2U);  // one for each count of threads
  });
}

TEST(MovingSlices, ThatReachTheBorderAreOtherShapes) {
  Step step;
  const int input = step.function(step.writer.input(float_value()));
  step.writer.returns({step.slice(input, 0, step.place, step.sum(step.place, 4), 2)});
  LoadedProgram program(step.writer.model);
  Random random(1);
  const std::vector<Tensor> inputs{random_tensor(random, Dtype::F32, {9})};
  const auto rows = [&](std::int64_t at) { return run(program, inputs, 1, {at}).front().sizes[0]; };
  EXPECT_EQ(rows(0), 2);
  EXPECT_EQ(rows(5), 2);
  EXPECT_EQ(rows(-5), 2);
  EXPECT_EQ(program.compiled_programs(), 1U);
  EXPECT_EQ(rows(7), 1);
  EXPECT_EQ(rows(8), 1);
  EXPECT_EQ(rows(9), 0);
  EXPECT_EQ(rows(-2), 0);  // x[-2:2]
  EXPECT_EQ(program.compiled_programs(), 3U);
  const auto expected = reference(step.writer.model, inputs, {-5}).front();
  const auto got = run(program, inputs, 1, {-5}).front();
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(got.numbers[i], expected.numbers[i], 1e-5);
}

TEST(MovingSlices, ShapesAndNumbersAreStillPartOfAProgram) {
  Step step(2);
  const int input = step.function(step.writer.input(float_value()));
  const int moved = step.slice(input, 0, step.place, step.sum(step.place, 6));
  const int shaped = step.writer.add({.kind = Kind::Reshape, .inputs = {moved}, .shape = {step.given(1), -1}},
                                     float_value());
  step.writer.returns({step.function(shaped)});
  LoadedProgram program(step.writer.model);
  Random random(1);
  const std::vector<Tensor> inputs{random_tensor(random, Dtype::F32, {12})};
  EXPECT_EQ(run(program, inputs, 1, {1, 2}).front().sizes, (Shape{2, 3}));
  EXPECT_EQ(run(program, inputs, 1, {4, 3}).front().sizes, (Shape{3, 2}));
  EXPECT_EQ(run(program, inputs, 1, {3, 3}).front().sizes, (Shape{3, 2}));
  EXPECT_EQ(program.compiled_programs(), 2U);
}

TEST(MovingSlices, IndexesOutOfRangeAreErrors) {
  Step step;
  const int input = step.writer.input(float_value());
  const auto begin = step.index(step.place, input, 0);
  step.writer.returns({step.slice(step.function(input), 0, begin, step.sum(begin, 1))});
  LoadedProgram program(step.writer.model);
  Random random(1);
  const std::vector<Tensor> inputs{random_tensor(random, Dtype::F32, {5})};
  for (const std::int64_t at : {5, -6}) {
    try {
      (void)run(program, inputs, 1, {at});
      FAIL();
    } catch (const ProgramError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("index " + std::to_string(at) + " is out of range"));
    }
    EXPECT_EQ(run(program, inputs, 1, {-5}).front().numbers, run(program, inputs, 1, {0}).front().numbers);
  }
  EXPECT_EQ(program.compiled_programs(), 1U);
}

/// Threads at several steps of one loop.
TEST(MovingSlices, OfSeveralThreadsAreTheirOwn) {
  Step step;
  const int input = step.function(step.writer.input(float_value()));
  step.writer.returns({step.function(step.slice(input, 1, step.place, step.sum(step.place, 1)))});
  LoadedProgram program(step.writer.model);
  Random random(1);
  const std::vector<Tensor> inputs{random_tensor(random, Dtype::F32, {4, 32})};
  std::vector<std::vector<double>> expected;
  for (std::int64_t at = 0; at < 32; ++at) expected.push_back(run(program, inputs, 1, {at}).front().numbers);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (std::int64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::int64_t at = 0; at < 32; ++at) {
          const auto own = (at + 8 * t) % 32;
          if (run(program, inputs, 1, {own}).front().numbers != expected[static_cast<std::size_t>(own)])
            ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(program.compiled_programs(), 1U);
}

TEST(ProgramCache, SaysOnceThatItGainsNothing) {
  std::vector<std::string> said;
  Writer writer;
  const int input = writer.input(float_value());
  writer.returns({writer.add(
      {.kind = Kind::Activation, .inputs = {input}, .post_ops = {{.kind = PostOpKind::Gelu}}, .name = "act"},
      float_value())});
  LoadedProgram program(writer.model, [&](const std::string& sentence) { said.push_back(sentence); });
  const auto call = [&](std::int64_t length) { (void)compile(program, {{Dtype::F32, {2, length}, {}}}); };
  for (std::int64_t length = 1; length <= 30; ++length) {
    call(length);
    call(length);
  }
  EXPECT_TRUE(said.empty());  // each was used again
  for (std::int64_t length = 101; length <= 132; ++length) call(length);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said.front(), testing::HasSubstr("the fused program of 'act'"));
  EXPECT_THAT(said.front(), testing::HasSubstr("the size of dimension 1 of its tensor 0 changes ("));
  for (std::int64_t length = 201; length <= 280; ++length) call(length);
  EXPECT_EQ(said.size(), 1U);
}

}  // namespace moving_slices_test
}  // namespace tsq::runtime::test
