#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace tsq::io {

/// The library that runs fused programs.
inline constexpr std::string_view kRuntimeLibrary = "libtsq_runtime.so";

/// Loads it, unless the process has it already: from beside the program, from the folder lib beside the
/// program's, or from where the system looks. Throws Error(Unsupported) where it is not.
void load_runtime();

/// Loads what the metadata of a file of tsq's names under "libraries".
void load_libraries_of(const nlohmann::json& metadata);

}  // namespace tsq::io
