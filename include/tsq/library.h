#pragma once

#include <string>

namespace tsq {

/// Loads a library of operators or classes into the process, as torch.ops.load_library does: a file that uses
/// them loads from then on. Loading it again does nothing. Throws Error(BadConfig) where it cannot be loaded.
/// Safe to call from several threads.
void load_library(const std::string& path);

/// LibTorch warns on standard error of things that its users cannot change (deprecated dtypes, missing
/// NNPACK). From now on it does not, unless TORCH_CPP_LOG_LEVEL is set. For the whole process; call it once,
/// at the start, as the command does.
void silence_libtorch();

}  // namespace tsq
