#pragma once

#include <functional>

#include "cli/process/session.h"

namespace tsq::cli {

/// Does a command's work in a child process, and returns its exit code. What a damaged file or a model does
/// to LibTorch, which may end the process that reads or runs it, is one sentence here and exit code 1.
/// Signals that end the program reach the child, which leaves no half-written file. Called once, before any
/// thread exists.
int supervise(const Session& session, const std::function<int()>& work);

}  // namespace tsq::cli
