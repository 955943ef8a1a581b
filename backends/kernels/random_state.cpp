#include "backends/kernels/random_state.h"

#include <ATen/CPUGeneratorImpl.h>

namespace tsq::kernels {
namespace {

std::recursive_mutex& mutex_of_generator() {
  static std::recursive_mutex mutex;
  return mutex;
}

}  // namespace

RandomState::RandomState(uint64_t seed)
    : owner_(mutex_of_generator()), generator_(at::detail::getDefaultCPUGenerator()) {
  const std::scoped_lock lock(generator_.mutex());
  before_ = generator_.get_state();
  generator_.set_current_seed(seed);
}

RandomState::~RandomState() {
  const std::scoped_lock lock(generator_.mutex());
  generator_.set_state(before_);
}

}  // namespace tsq::kernels
