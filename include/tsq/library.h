#pragma once

#include <tsq/libtorch_warnings.h>

#include <string>

namespace tsq {

/// Loads a library of operators or classes into the process, as torch.ops.load_library does: a file that uses
/// them loads from then on. Loading it again does nothing. Throws Error(BadConfig) where it cannot be loaded.
/// Safe to call from several threads.
void load_library(const std::string& path);

}  // namespace tsq
