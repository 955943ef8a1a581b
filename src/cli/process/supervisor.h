#pragma once

#include <functional>
#include <string>

#include "base/process_limits.h"
#include "cli/process/session.h"

namespace tsq::cli {

/// Does a command's work in a child process, and returns its exit code. What a damaged file or a model does
/// to LibTorch, which may end the process that reads or runs it, is one sentence here and exit code 1.
/// Signals that end the program reach the child, which leaves no half-written file. Called once, before any
/// thread exists.
int supervise(const Session& session, const std::function<int()>& work);

/// A model file is being loaded, until the object is gone: within limits of memory (2 GB and eight times the
/// file's size) and of processor time (8 s and one for each 20 MB of it). Past the first LibTorch finds no
/// memory; past the second the process ends, and the supervisor says why.
class Loading {
 public:
  explicit Loading(const std::string& path);
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

 private:
  ProcessLimits limits_;
};

}  // namespace tsq::cli
