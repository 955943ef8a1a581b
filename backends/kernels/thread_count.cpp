#include "backends/kernels/thread_count.h"

#include <ATen/Parallel.h>

namespace tsq::kernels {
namespace {

void set(int threads) {
  if (threads != at::get_num_threads()) at::set_num_threads(threads);
}

}  // namespace

ThreadCount::ThreadCount(int threads) : before_(at::get_num_threads()) {
  if (threads > 0) set(threads);
}

ThreadCount::~ThreadCount() { set(before_); }

}  // namespace tsq::kernels
