#pragma once

#include <tsq/load_limits.h>

#include <string>

namespace tsq {

/// Looks at a model file as `tsq::load` does before LibTorch reads it, which trusts its directory, its
/// pickles and the sizes in it. Says nothing of code. Throws Error(BadModel) that names the file and the
/// record.
void check_model_file(const std::string& path);

/// Loads a model file in a child process, and says what becomes of it: for programs that load files of
/// strangers into a process that must go on. `tsq::load` looks at a file before LibTorch reads it, but code
/// that LibTorch's parser or interpreter cannot survive still ends the process. Throws Error(BadModel) where
/// the file cannot be loaded, where the child ends by a signal, and where it needs more than the limits.
///
/// The child is a fork of this process: call it before LibTorch has computed on several threads (see
/// docs/threads.md), and load libraries of operators that the file needs before. Takes as long as loading the
/// file.
void try_load(const std::string& path);
void try_load(const std::string& path, const LoadLimits& limits);

}  // namespace tsq
