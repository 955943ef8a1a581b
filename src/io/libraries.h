#pragma once

#include <string>

namespace tsq::io {

/// Loads the library that runs fused programs, unless the process has it. Throws Error(Unsupported) where it
/// cannot be loaded.
void load_runtime();

/// The same for a TorchScript file that holds fused programs.
void load_runtime_for(const std::string& path);

}  // namespace tsq::io
