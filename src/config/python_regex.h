#pragma once

#include <string>
#include <string_view>

namespace tsq {

/// Throws Error(BadConfig) when `regex` is none in Python's syntax (module re).
void check_python_regex(const std::string& regex);

/// Python's re.match: the text begins with a match, and may go on after it (B-06). Throws Error(BadConfig)
/// where the search takes too long.
bool python_regex_matches(const std::string& regex, const std::string& text);

}  // namespace tsq
