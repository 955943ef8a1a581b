#pragma once

namespace tsq::kernels {

/// How many threads LibTorch's operators compute with, from here to the end of the scope; 0 leaves it as it
/// is. OpenMP keeps the number for the thread that sets it, and LibTorch for threads that have not computed
/// yet: each thread that calls a model has a ThreadCount of its own.
class [[nodiscard]] ThreadCount {
 public:
  explicit ThreadCount(int threads);
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;
  ~ThreadCount();

 private:
  int before_;
};

}  // namespace tsq::kernels
