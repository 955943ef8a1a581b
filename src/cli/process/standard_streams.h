#pragma once

#include <string>

namespace tsq::cli {

/// Opens /dev/null for each standard stream that is closed: no file that is opened later takes its place, and
/// gets what is printed. Standard output still refuses what is written to it.
void open_standard_streams();

/// One line that a terminal shows as it is, of at most 1000 bytes, of words that are no longer than a file's
/// name: what a file has in it may be anything.
std::string as_line(std::string text);

/// Writes "tsq: note: …" to standard error.
void print_note(const std::string& note);

/// Writes a result, with blanks in the place of control characters other than ends of lines. Throws
/// Error(BadOutput) where standard output does not take it. A reader that has gone, such as `head`, is no
/// fault.
void write_standard_output(std::string text);

}  // namespace tsq::cli
