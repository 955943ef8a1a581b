#include "cli/process/json_file.h"

#include <tsq/parse_json.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/figures.h"
#include "cli/process/standard_streams.h"

namespace tsq::cli {
namespace {

[[noreturn]] void refuse_json(const std::string& problem, const std::string& remedy = {}) {
  throw Error(ErrorCode::BadConfig, problem, remedy);
}

}  // namespace

nlohmann::json read_json(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    refuse_json(fmt::format("file '{}' does not exist", path),
                "check the path; 'tsq qconfig show NAME' and 'tsq backend-config show NAME' print files to "
                "begin with");
  if (!std::filesystem::is_regular_file(path, code))
    refuse_json(fmt::format("'{}' is not a regular file", path), "give the path of a JSON file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_json(fmt::format("file '{}' cannot be opened", path), "check its permissions");
  if (const auto bytes = std::filesystem::file_size(path, code); bytes > kLongestJson)
    refuse_json(fmt::format("file '{}' has {}, and no more than {} are read", path, readable_size(bytes),
                            readable_size(kLongestJson)));
  std::string text;
  try {
    file.exceptions(std::ios::badbit);
    text.assign(std::istreambuf_iterator<char>(file), {});
  } catch (const std::ios::failure&) {
    refuse_json(fmt::format("file '{}' cannot be read: {}", path, std::strerror(errno)), "name a JSON file");
  }
  return parse_json(text, fmt::format("'{}'", path));
}

void print_notes(const std::string& path, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) print_note(fmt::format("'{}': {}", path, note));
}

}  // namespace tsq::cli
