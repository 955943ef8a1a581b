#pragma once

#include <cstdint>

namespace tsq::runtime {

namespace detail {
using Part = void (*)(const void* work, std::int64_t begin, std::int64_t end);
void parallel(std::int64_t units, int threads, Part part, const void* work);
}  // namespace detail

/// Calls `work(begin, end)` on up to `threads` threads of OpenMP, which LibTorch and oneDNN use too.
template <typename Work>
void parallel(std::int64_t units, int threads, const Work& work) {
  if (threads <= 1 || units <= 1) {
    work(std::int64_t{0}, units);
    return;
  }
  detail::parallel(
      units, threads,
      [](const void* erased, std::int64_t begin, std::int64_t end) {
        (*static_cast<const Work*>(erased))(begin, end);
      },
      &work);
}

/// Waits until all threads that run the same parallel() have come here, each as often as the others.
void meet();

/// While it lives, one more program runs in this process.
class RunningProgram {
 public:
  RunningProgram();
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  /// Whether several run at once. Then threads wait for processors, and those that meet wait for each other.
  static bool has_company();
};

/// While it lives, OpenMP's count of threads on this thread is the given one: oneDNN takes it for good when a
/// primitive is made.
class ThreadCount {
 public:
  explicit ThreadCount(int threads);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

}  // namespace tsq::runtime
