#include "config/python_regex.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <map>
#include <mutex>
#include <regex>

namespace tsq {
namespace {

/// ECMAScript's spelling of Python's \A, \Z and (?P<name>…).
std::string to_ecmascript(const std::string& python) {
  std::string translated;
  for (std::size_t i = 0; i < python.size(); ++i) {
    const std::string_view rest = std::string_view(python).substr(i);
    if (rest.starts_with("(?P<")) {
      const auto end = rest.find('>');
      if (end == std::string_view::npos) return python;
      translated += '(';
      i += end;
    } else if (rest.starts_with("\\A") || rest.starts_with("\\Z")) {
      translated += rest[1] == 'A' ? '^' : '$';
      ++i;
    } else if (rest[0] == '\\' && rest.size() > 1) {
      translated += rest.substr(0, 2);
      ++i;
    } else {
      translated += rest[0];
    }
  }
  return translated;
}

/// Compiling costs more than matching, and every node of a graph is asked about every regex.
const std::regex& compiled(const std::string& regex) {
  static std::mutex mutex;
  static std::map<std::string, std::regex> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(regex);
  if (found != known.end()) return found->second;
  return known.emplace(regex, std::regex(to_ecmascript(regex))).first->second;
}

}  // namespace

void check_python_regex(const std::string& regex) {
  try {
    (void)compiled(regex);
  } catch (const std::regex_error& error) {
    throw Error(ErrorCode::BadConfig, fmt::format("the regex '{}' does not compile: {}", regex, error.what()),
                "look-behind and inline flags are not supported");
  }
}

bool python_regex_matches(const std::string& regex, const std::string& text) {
  return std::regex_search(text, compiled(regex), std::regex_constants::match_continuous);
}

}  // namespace tsq
