#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tsq::io {

/// Loads the library that runs fused programs, unless the process has it. Throws Error(Unsupported) where it
/// cannot be loaded.
void load_runtime();

/// Loads what the metadata of a file of tsq's names under "libraries".
void load_libraries_of(const nlohmann::json& metadata);

}  // namespace tsq::io
