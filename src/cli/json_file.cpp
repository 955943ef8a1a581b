#include "cli/json_file.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

namespace tsq::cli {
namespace {

using nlohmann::json;

constexpr int kDeepestNesting = 64;

[[noreturn]] void refuse(const std::string& problem, const std::string& remedy = {}) {
  throw Error(ErrorCode::BadConfig, problem, remedy);
}

/// "[json.exception.parse_error.101] parse error at line 2, column 5: …" without its first words.
std::string reason(const json::parse_error& error) {
  const std::string text = error.what();
  const std::size_t at = text.find("at line ");
  std::string line = at == std::string::npos ? text.substr(text.find("] ") + 2) : text.substr(at + 3);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return line;
}

/// Sees each object's keys while they are parsed: afterwards only the last of two equal ones is left.
class KeyCheck {
 public:
  explicit KeyCheck(const std::string& path) : path_(path) {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (depth > kDeepestNesting)
      refuse(fmt::format("'{}' nests deeper than {} levels", path_, kDeepestNesting));
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      refuse(fmt::format("'{}' has the key '{}' twice in one object", path_, parsed.get<std::string>()),
             "keep one of them");
    }
    return true;
  }

 private:
  const std::string& path_;
  std::vector<std::set<std::string>> keys_{};
};

}  // namespace

json read_json(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) refuse(fmt::format("file '{}' does not exist", path));
  if (!std::filesystem::is_regular_file(path, code)) refuse(fmt::format("'{}' is not a regular file", path));
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(fmt::format("file '{}' cannot be opened", path), "check its permissions");
  try {
    KeyCheck check(path);
    return json::parse(file, [&check](int depth, json::parse_event_t event, json& parsed) {
      return check(depth, event, parsed);
    });
  } catch (const json::parse_error& e) {
    refuse(fmt::format("'{}' is not JSON: {}", path, reason(e)));
  }
}

}  // namespace tsq::cli
