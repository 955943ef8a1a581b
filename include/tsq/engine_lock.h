#pragma once

// LibTorch's quantized engine with an owner. LibTorch has one engine for the whole process: it packs int8
// weights with the one that is set while a file is loaded, and some kernels read it again when they run. Who
// loads or calls an int8 model takes a hold of its engine for as long as that lasts:
//
//     const tsq::EngineHold hold(at::QEngine::X86);
//     at::IValue result = module.forward(inputs);
//
// One header that needs LibTorch alone; programs that copy tsq/runner.h copy this one too. All copies in a
// process, whichever shared library they are in, are one lock (a program that loads them by dlopen exports
// its own symbols: -rdynamic).
//
// The rules:
// - Threads that hold one engine run side by side; who needs another one waits until they are done. Turns are
//   in the order of arrival: once a thread waits, newcomers queue up after it, whichever engine they need.
// - A hold is for one load or one call. Inside of it, a thread must not wait for another thread that takes a
//   hold of its own, and nobody takes a hold of another engine (std::logic_error). Threads that a call
//   starts by itself (at::parallel_for, torch.jit.fork) compute inside of the hold of the thread that called.
// - A program that sets the engine itself does so by set_engine, or by at::globalContext().setQEngine before
//   it starts threads. What it loads or calls without a hold runs with whatever engine is set at that moment;
//   as long as all models of the process need the engine that the program has set, that is the right one.

#include <ATen/Context.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stdexcept>

namespace tsq {

/// Copies of this header share one object: another layout of it has another name.
inline namespace engine_lock_1 {

/// Who holds the engine, and who waits for another one. Used through EngineHold.
class [[gnu::visibility("default")]] EngineLock {
 public:
  EngineLock(const EngineLock&) = delete;
  EngineLock& operator=(const EngineLock&) = delete;

  [[gnu::visibility("default")]] static EngineLock& of_process() {
    // Never destroyed: threads may still hold it while the process ends.
    static EngineLock& lock = *new EngineLock;
    return lock;
  }

  void take(at::QEngine engine) {
    Thread& own = this_thread();
    if (own.holds > 0 && own.engine != engine)
      throw std::logic_error("this thread holds the quantized engine " + at::toString(own.engine) +
                             " and cannot take " + at::toString(engine) + " before it has let go of it");
    if (own.holds == 0) {
      check_supported(engine);
      wait_for_turn(engine);
      own.engine = engine;
    }
    ++own.holds;
  }

  void let_go() noexcept {
    if (--this_thread().holds > 0) return;
    const std::scoped_lock guard(mutex_);
    if (--holders_ > 0) return;
    if (waiting_.empty()) {
      at::globalContext().setQEngine(before_);
      return;
    }
    const Batch next = waiting_.front();
    waiting_.pop_front();
    at::globalContext().setQEngine(engine_ = next.engine);
    holders_ = next.threads;
    begun_ = next.number;
    turn_.notify_all();
  }

  [[nodiscard]] at::QEngine in_use() {
    const Thread& own = this_thread();
    if (own.holds > 0) return own.engine;
    const std::scoped_lock guard(mutex_);
    return holders_ > 0 ? before_ : at::globalContext().qEngine();
  }

  void set(at::QEngine engine) {
    check_supported(engine);
    const std::scoped_lock guard(mutex_);
    if (holders_ > 0) {
      before_ = engine;
    } else {
      at::globalContext().setQEngine(engine);
    }
  }

 private:
  /// What one thread holds.
  struct Thread {
    at::QEngine engine{at::QEngine::NoQEngine};
    std::size_t holds{0};
  };
  /// Threads that wait for one engine and get it together.
  struct Batch {
    at::QEngine engine{at::QEngine::NoQEngine};
    std::size_t threads{0};
    uint64_t number{0};  ///< counted in the order of arrival
  };

  EngineLock() = default;

  [[gnu::visibility("default")]] static Thread& this_thread() {
    thread_local Thread own{};
    return own;
  }

  /// As LibTorch does, but before anybody waits: who hands the engine on must not fail.
  static void check_supported(at::QEngine engine) {
    const auto& engines = at::Context::supportedQEngines();
    TORCH_CHECK(std::find(engines.begin(), engines.end(), engine) != engines.end(), "quantized engine ",
                at::toString(engine), " is not supported");
  }

  void wait_for_turn(at::QEngine engine) {
    std::unique_lock guard(mutex_);
    if (holders_ == 0) {  // then nobody waits
      before_ = at::globalContext().qEngine();
      at::globalContext().setQEngine(engine_ = engine);
      holders_ = 1;
    } else if (engine == engine_ && waiting_.empty()) {
      ++holders_;
    } else {
      const uint64_t number = joined_batch(engine);
      turn_.wait(guard, [&] { return begun_ >= number; });
    }
  }

  /// The number of the batch that this thread waits in.
  uint64_t joined_batch(at::QEngine engine) {
    const auto same = std::find_if(waiting_.begin(), waiting_.end(),
                                   [&](const Batch& batch) { return batch.engine == engine; });
    if (same != waiting_.end()) {
      ++same->threads;
      return same->number;
    }
    waiting_.push_back({engine, 1, last_ + 1});
    return ++last_;
  }

  std::mutex mutex_{};
  std::condition_variable turn_{};
  at::QEngine engine_{at::QEngine::NoQEngine};  ///< that is held, where there are holders
  at::QEngine before_{at::QEngine::NoQEngine};  ///< that was set before the first of them
  std::size_t holders_{0};                      ///< threads
  std::deque<Batch> waiting_{};                 ///< for one engine each, the next one first
  uint64_t last_{0};                            ///< number given to a batch
  uint64_t begun_{0};                           ///< number of the last batch that has had its turn
};

/// A hold of the process's quantized engine, from its construction until the end of its scope. Waits while
/// other threads hold another engine. Holds of one engine may be nested; for another one than the thread
/// holds already, throws std::logic_error. Throws c10::Error for an engine that this LibTorch does not have.
/// When nobody holds an engine any more, the one that was set before is set again.
class [[nodiscard, gnu::visibility("default")]] EngineHold {
 public:
  explicit EngineHold(at::QEngine engine) { EngineLock::of_process().take(engine); }
  EngineHold(const EngineHold&) = delete;
  EngineHold& operator=(const EngineHold&) = delete;
  ~EngineHold() { EngineLock::of_process().let_go(); }
};

}  // namespace engine_lock_1

/// The engine that this thread's calls of LibTorch get: that of the hold around them, otherwise the one that
/// is set while nobody holds another.
[[nodiscard]] inline at::QEngine engine_in_use() { return EngineLock::of_process().in_use(); }

/// Sets the process's engine for what runs without a hold: at once, or, while threads hold one, as soon as
/// they have let go. Throws c10::Error for an engine that this LibTorch does not have.
inline void set_engine(at::QEngine engine) { EngineLock::of_process().set(engine); }

}  // namespace tsq
