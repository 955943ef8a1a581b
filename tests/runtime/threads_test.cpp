#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "runtime/networks.h"
#include "runtime/program/error.h"

namespace tsq::runtime::test {
namespace threads_test {

constexpr int kThreads = 16;
constexpr int kCalls = 1000;  // of each

struct Case {
  std::size_t program;
  Tensor input;
  std::vector<double> expected;
};

/// Two programs with two shapes each, compiled while others run: every result has the bits of a call alone.
TEST(Threads, CallsAtOnceEqualCallsOneAfterTheOther) {
  const std::vector<Model> models{mobilenet_like(), transformer_like()};
  Random random(1);
  std::vector<Case> cases;
  for (std::size_t i = 0; i < 4; ++i) {
    Case one{i % 2, random_tensor(random, Dtype::F32, Shape{i < 2 ? 1 : 2, 3, 32, 32}), {}};
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
      for (int call = 0; call < kCalls; ++call) {
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

bool fits(const ProgramCache::Built& /*program*/) { return true; }

/// A cache whose programs are no programs; counts what is built.
struct CountedCache {
  ProgramCache cache{2};
  int built = 0;

  void get(std::int64_t key) {
    const std::int64_t keys[] = {key};
    (void)cache.get(keys, fits, [this] {
      ++built;
      return ProgramCache::Built();
    });
  }
};

TEST(Cache, DropsWhatWasUsedLeastRecently) {
  CountedCache counted;
  for (const std::int64_t key : {1, 2, 1, 3}) counted.get(key);
  EXPECT_EQ(counted.built, 3);
  counted.get(1);
  EXPECT_EQ(counted.built, 3) << "1 was used after 2";
  counted.get(2);
  EXPECT_EQ(counted.built, 4);
  EXPECT_EQ(counted.cache.size(), 2U);
}

/// Would not end if the second program waited for the first.
TEST(Cache, BuildsAProgramWhileAnotherIsBeingBuilt) {
  ProgramCache cache(4);
  std::latch second_is_built(1);
  const auto get = [&](std::int64_t key, const std::function<void()>& while_building) {
    const std::int64_t keys[] = {key};
    (void)cache.get(keys, fits, [&] {
      while_building();
      return ProgramCache::Built();
    });
  };
  std::latch first_begins(1);
  const std::jthread first([&] {
    get(1, [&] {
      first_begins.count_down();
      second_is_built.wait();
    });
  });
  first_begins.wait();
  get(2, [] {});
  get(2, [] { FAIL() << "it is there"; });
  second_is_built.count_down();
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

}  // namespace threads_test
}  // namespace tsq::runtime::test
