#pragma once

#include <string>
#include <string_view>

namespace tsq {

/// Throws Error(BadConfig) when `regex` does not compile, or uses a part of Python's syntax that std::regex
/// has not (look-behind, inline flags, possessive quantifiers).
void check_python_regex(const std::string& regex);

/// Python's re.match: the text begins with a match, and may go on after it (B-06).
bool python_regex_matches(const std::string& regex, const std::string& text);

}  // namespace tsq
