#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "runtime/program/error.h"
#include "runtime/support.h"

namespace tsq::runtime::test {
namespace {

constexpr int kThreads = 16;

struct Case {
  std::size_t program;
  Tensor input;
  std::vector<double> expected;
};

/// Two programs with two shapes each, compiled while others run: every result has the bits of a call alone.
TEST(Threads, CallsAtOnceEqualCallsOneAfterTheOther) {
  const std::vector<Model> models{small_network(1), small_network(2)};
  Random random(1);
  std::vector<Case> cases;
  for (std::size_t i = 0; i < 4; ++i) {
    Case one{i % 2, random_tensor(random, Dtype::F32, i < 2 ? Shape{1, 3, 16, 16} : Shape{2, 3, 21, 13}), {}};
    LoadedProgram alone(models[one.program]);
    one.expected = run(alone, {one.input}).front().numbers;
    cases.push_back(one);
  }
  std::vector<std::unique_ptr<LoadedProgram>> programs;
  for (const auto& model : models) programs.push_back(std::make_unique<LoadedProgram>(model));
  std::atomic<int> wrong = 0;
  std::latch start(kThreads);
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (int call = 0; call < 60; ++call) {
        const auto& one = cases[static_cast<std::size_t>(call + t) % cases.size()];
        if (run(*programs[one.program], {one.input}).front().numbers != one.expected) ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  for (const auto& program : programs) EXPECT_EQ(program->compiled_programs(), 2U);
}

TEST(Cache, KeepsShapesAndCountsOfThreadsApartAndIsBounded) {
  LoadedProgram program(small_network(1));
  Random random(1);
  const std::vector<Tensor> inputs{random_tensor(random, Dtype::F32, {1, 3, 8, 8})};
  const auto first = compile(program, inputs, 1);
  EXPECT_EQ(compile(program, inputs, 1), first);
  EXPECT_NE(compile(program, inputs, 2), first);
  EXPECT_EQ(program.compiled_programs(), 2U);
  for (std::int64_t size = 9; size < 40; ++size) {
    (void)compile(program, {random_tensor(random, Dtype::F32, {1, 3, size, 8})});
  }
  EXPECT_EQ(program.compiled_programs(), 16U);
}

TEST(Cache, KeepsIntegersApart) {
  Writer writer;
  writer.model.program.given_integers = 1;
  const auto end = writer.integer({.kind = IntegerKind::Given});
  writer.returns(
      {writer.add({.kind = Kind::Slice, .inputs = {writer.input(float_value())}, .end = end}, {})});
  LoadedProgram program(writer.model);
  Random random(1);
  const std::vector<Tensor> inputs{random_tensor(random, Dtype::F32, {3, 8})};
  EXPECT_EQ(run(program, inputs, 1, {5}).front().sizes, (Shape{3, 5}));
  EXPECT_EQ(run(program, inputs, 1, {-2}).front().sizes, (Shape{3, 6}));
  EXPECT_EQ(program.compiled_programs(), 2U);
  EXPECT_THROW((void)run(program, inputs), ProgramError);
}

TEST(Cache, PacksWeightsOnceForAllShapesAndThreads) {
  LoadedProgram program(small_network(1));
  Random random(1);
  (void)compile(program, {random_tensor(random, Dtype::F32, {1, 3, 16, 16})});
  const auto packed = program.packed_weights();
  EXPECT_EQ(packed, 6U);
  (void)compile(program, {random_tensor(random, Dtype::F32, {2, 3, 16, 16})});
  (void)compile(program, {random_tensor(random, Dtype::F32, {1, 3, 16, 16})}, 2);
  // A linear layer may want other layouts for more rows or threads.
  EXPECT_LE(program.packed_weights(), packed + 2);
}

}  // namespace
}  // namespace tsq::runtime::test
