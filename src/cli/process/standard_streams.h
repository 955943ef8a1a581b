#pragma once

#include <string>

namespace tsq::cli {

/// Opens /dev/null for each standard stream that is closed: no file that is opened later takes its place, and
/// gets what is printed. Standard output still refuses what is written to it.
void open_standard_streams();

/// Writes a result. Throws Error(BadOutput) where standard output does not take it. A reader that has gone,
/// such as `head`, is no fault.
void write_standard_output(const std::string& text);

}  // namespace tsq::cli
