#pragma once

#include <sys/resource.h>
#include <tsq/load_limits.h>

namespace tsq {

/// This process has limits of memory and of processor time until the object is gone. Past the first an
/// allocation fails; past the second SIGXCPU ends the process.
class ProcessLimits {
 public:
  explicit ProcessLimits(const LoadLimits& limits);
  ~ProcessLimits();
  ProcessLimits(const ProcessLimits&) = delete;
  ProcessLimits& operator=(const ProcessLimits&) = delete;

 private:
  rlimit memory_{};
  rlimit time_{};
};

}  // namespace tsq
