#include "runtime/kernels/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

namespace tsq::runtime {

namespace detail {
void parallel(std::int64_t units, int threads, Part part, const void* work) {
  const auto team = static_cast<int>(std::min<std::int64_t>(threads, units));
#pragma omp parallel num_threads(team)
  {
    // OpenMP may start fewer threads than it was asked for.
    const std::int64_t count = omp_get_num_threads();
    const std::int64_t index = omp_get_thread_num();
    const auto begin = units * index / count;
    const auto end = units * (index + 1) / count;
    if (begin < end) part(work, begin, end);
  }
}
}  // namespace detail

void meet() {
#pragma omp barrier
}

namespace {
std::atomic<int> running_programs{0};
}

RunningProgram::RunningProgram() { ++running_programs; }
RunningProgram::~RunningProgram() { --running_programs; }
bool RunningProgram::has_company() { return running_programs.load(std::memory_order_relaxed) > 1; }

ThreadCount::ThreadCount(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
ThreadCount::~ThreadCount() { omp_set_num_threads(before_); }

}  // namespace tsq::runtime
