#pragma once

#include <string>
#include <string_view>

#include "base/process_limits.h"

namespace tsq::cli {

/// From here on this process and its children know of each other what `libtorch_does` says. Called once.
void share_what_libtorch_does();

/// What LibTorch does with a file now, in the process or in its child: "loads 'x.pt'". Empty: nothing.
std::string what_libtorch_does();

/// LibTorch does this until the object is gone. One at a time.
class LibTorchDoes {
 public:
  explicit LibTorchDoes(std::string_view doing);
  ~LibTorchDoes();
  LibTorchDoes(const LibTorchDoes&) = delete;
  LibTorchDoes& operator=(const LibTorchDoes&) = delete;
};

/// A model file is being loaded, until the object is gone: within limits of memory (2 GB and eight times the
/// file's size) and of processor time (8 s and one for each 20 MB of it). Past the first LibTorch finds no
/// memory; past the second the process ends, and the supervisor says why.
class Loading {
 public:
  explicit Loading(const std::string& path);

 private:
  ProcessLimits limits_;
  LibTorchDoes doing_;
};

}  // namespace tsq::cli
