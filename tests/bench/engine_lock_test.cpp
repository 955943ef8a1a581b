// Who gets the process's quantized engine, and when.
#include <gtest/gtest.h>
#include <tsq/engine_lock.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace tsq {
namespace engine_lock_test {

using at::QEngine;

constexpr std::chrono::seconds kLong{60};

QEngine set_now() { return at::globalContext().qEngine(); }

/// Each test begins with an engine that none of its holds is for.
class EngineLockTest : public ::testing::Test {
 protected:
  void SetUp() override { at::globalContext().setQEngine(QEngine::FBGEMM); }
  void TearDown() override { at::globalContext().setQEngine(former_); }

 private:
  QEngine former_{set_now()};
};

TEST_F(EngineLockTest, TheEngineIsSetInsideAndPutBackAfterwards) {
  {
    const EngineHold hold(QEngine::X86);
    EXPECT_EQ(set_now(), QEngine::X86);
  }
  EXPECT_EQ(set_now(), QEngine::FBGEMM);
}

TEST_F(EngineLockTest, AnExceptionInsideLetsGo) {
  const auto fail = [] {
    const EngineHold hold(QEngine::X86);
    throw std::runtime_error("inside");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_EQ(set_now(), QEngine::FBGEMM);
  auto other = std::async(std::launch::async, [] { const EngineHold hold(QEngine::QNNPACK); });
  EXPECT_EQ(other.wait_for(kLong), std::future_status::ready);
}

TEST_F(EngineLockTest, HoldsOfOneEngineNest) {
  const EngineHold outer(QEngine::X86);
  { const EngineHold inner(QEngine::X86); }
  EXPECT_EQ(set_now(), QEngine::X86);
}

TEST_F(EngineLockTest, AHoldOfAnotherEngineInsideIsAnError) {
  {
    const EngineHold outer(QEngine::X86);
    EXPECT_THROW(EngineHold{QEngine::QNNPACK}, std::logic_error);
    EXPECT_EQ(set_now(), QEngine::X86);
  }
  EXPECT_EQ(set_now(), QEngine::FBGEMM);
}

TEST_F(EngineLockTest, WhatIsSetDuringAHoldHoldsAfterIt) {
  {
    const EngineHold hold(QEngine::X86);
    set_engine(QEngine::QNNPACK);
    EXPECT_EQ(set_now(), QEngine::X86);
    EXPECT_EQ(engine_in_use(), QEngine::X86);
    EXPECT_EQ(std::async(std::launch::async, engine_in_use).get(), QEngine::QNNPACK);
  }
  EXPECT_EQ(set_now(), QEngine::QNNPACK);
  set_engine(QEngine::ONEDNN);
  EXPECT_EQ(set_now(), QEngine::ONEDNN);
}

TEST_F(EngineLockTest, ThreadsThatNeedOneEngineHoldItTogether) {
  const EngineHold own(QEngine::X86);
  auto other = std::async(std::launch::async, [] {
    const EngineHold hold(QEngine::X86);
    return set_now();
  });
  ASSERT_EQ(other.wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(other.get(), QEngine::X86);
}

TEST_F(EngineLockTest, AnotherEngineWaitsUntilItIsLetGo) {
  std::atomic<bool> is_held{true};
  std::future<bool> other;
  {
    const EngineHold own(QEngine::X86);
    other = std::async(std::launch::async, [&] {
      const EngineHold hold(QEngine::QNNPACK);
      return is_held.load();
    });
    EXPECT_EQ(other.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    is_held = false;
  }
  ASSERT_EQ(other.wait_for(kLong), std::future_status::ready);
  EXPECT_FALSE(other.get());
  EXPECT_EQ(set_now(), QEngine::FBGEMM);
}

/// Threads that take one engine over and over, so that at each moment at least one of them holds it.
class Crowd {
 public:
  explicit Crowd(QEngine engine) {
    for (int i = 0; i < 4; ++i) {
      threads_.emplace_back([this, engine] {
        while (!ends_) {
          const EngineHold hold(engine);
          ++holds_;
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
    }
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() {
    ends_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  [[nodiscard]] int holds() const { return holds_; }

 private:
  std::atomic<bool> ends_{false};
  std::atomic<int> holds_{0};
  std::vector<std::thread> threads_{};
};

TEST_F(EngineLockTest, AnotherEngineGetsItsTurnAlthoughTheFirstKeepsComing) {
  constexpr int kTurns = 20;
  const Crowd first(QEngine::X86);
  for (const QEngine engine : {QEngine::QNNPACK, QEngine::ONEDNN}) {
    auto other = std::async(std::launch::async, [&] {
      for (int turn = 0; turn < kTurns; ++turn) const EngineHold hold(engine);
    });
    ASSERT_EQ(other.wait_for(kLong), std::future_status::ready);
  }
  const int before = first.holds();
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (first.holds() == before && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_GT(first.holds(), before);
}

TEST_F(EngineLockTest, EveryHolderSeesItsOwnEngineUnderLoad) {
  constexpr std::array kEngines{QEngine::X86, QEngine::QNNPACK, QEngine::ONEDNN};
  constexpr std::size_t kThreads = 9;
  constexpr int kHolds = 500;
  std::atomic<int> others{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, engine = kEngines.at(i % kEngines.size())] {
      for (int k = 0; k < kHolds; ++k) {
        const EngineHold hold(engine);
        others += set_now() == engine ? 0 : 1;
        std::this_thread::yield();
        const EngineHold inner(engine);
        others += set_now() == engine ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(others, 0);
  EXPECT_EQ(set_now(), QEngine::FBGEMM);
}

}  // namespace engine_lock_test
}  // namespace tsq
