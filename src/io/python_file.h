#pragma once

#include <optional>
#include <string>

namespace tsq::io {

/// The text of a Python file that a trace names. None where there is no such file, or none that a person
/// would have written: a device, or megabytes.
std::optional<std::string> read_python_file(const std::string& path);

}  // namespace tsq::io
