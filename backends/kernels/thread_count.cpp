#include "backends/kernels/thread_count.h"

#include <ATen/Parallel.h>

namespace tsq::kernels {
namespace {

void compute_with(int threads) {
  if (threads != at::get_num_threads()) at::set_num_threads(threads);
}

}  // namespace

ThreadCount::ThreadCount(int threads) : before_(at::get_num_threads()) {
  if (threads > 0) compute_with(threads);
}

ThreadCount::~ThreadCount() { compute_with(before_); }

}  // namespace tsq::kernels
