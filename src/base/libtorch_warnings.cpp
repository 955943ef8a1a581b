// Warnings of LibTorch.

#include <c10/util/Logging.h>
#include <tsq/libtorch_warnings.h>

#include <cstdlib>

namespace tsq {

void silence_libtorch() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = 2;
}

}  // namespace tsq
