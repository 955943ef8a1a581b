// What is one for the whole process, besides the engine: random numbers and the number of threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "backends/kernels/random_state.h"
#include "backends/kernels/thread_count.h"

namespace tsq::kernels {
namespace process_state_test {

constexpr int64_t kNumbers = 64;

at::Tensor seeded() {
  const RandomState random(3);
  return at::randn({kNumbers});
}

TEST(RandomState, EachScopeHasTheSameNumbersAndTheProcessGoesOnAsBefore) {
  at::manual_seed(1);
  const at::Tensor first = at::randn({kNumbers});
  const at::Tensor second = at::randn({kNumbers});
  at::manual_seed(1);
  EXPECT_TRUE(at::randn({kNumbers}).equal(first));
  const at::Tensor inside = seeded();
  EXPECT_TRUE(seeded().equal(inside));
  EXPECT_TRUE(at::randn({kNumbers}).equal(second));
}

TEST(RandomState, ThreadsHaveTheSameNumbersAtOnce) {
  constexpr std::size_t kThreads = 4;
  constexpr int kRounds = 100;
  const at::Tensor wanted = seeded();
  std::vector<int> equal(kThreads);
  std::vector<std::thread> threads;
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) count += seeded().equal(wanted) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(kThreads, kRounds));
}

TEST(ThreadCount, IsSetInsideAndPutBackAfterwards) {
  const int before = at::get_num_threads();
  {
    const ThreadCount outer(before + 1);
    EXPECT_EQ(at::get_num_threads(), before + 1);
    const ThreadCount unchanged(0);
    EXPECT_EQ(at::get_num_threads(), before + 1);
  }
  EXPECT_EQ(at::get_num_threads(), before);
}

}  // namespace process_state_test
}  // namespace tsq::kernels
