#include "config/module_definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "base/base64.h"
#include "base/module_files.h"

namespace tsq {
namespace {

constexpr const char* kFile = "file";
constexpr const char* kSource = "source";
constexpr const char* kArchive = "archive";
constexpr std::array<std::string_view, 3> kForms{kFile, kSource, kArchive};

std::string archive_of(const JsonValue& at) {
  auto bytes = from_base64(at.string());
  if (!bytes) at.fail("is no Base64", "prepare the model again");
  return *std::move(bytes);
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) {
    throw Error(ErrorCode::BadConfig,
                fmt::format("the module file '{}' cannot be read, and what is saved is to hold it", path),
                "put the file back, or prepare the model again with a configuration that names another");
  }
  return bytes;
}

}  // namespace

ModuleDefinition read_module_definition(const JsonValue& at, std::string_view what,
                                        std::span<const std::string_view> more) {
  std::vector<std::string_view> keys(kForms.begin(), kForms.end());
  keys.insert(keys.end(), more.begin(), more.end());
  at.expect_object(what, keys);
  const auto forms = std::ranges::count_if(kForms, [&](std::string_view form) { return at.has(form); });
  if (forms != 1)
    at.fail(fmt::format("{} is defined by its file or by its source", what), "give one of the two");
  if (at.has(kArchive)) return {.archive = archive_of(at.at(kArchive))};
  if (at.has(kFile)) return {.file = at.at(kFile).string()};
  return {.source = at.at(kSource).string()};
}

nlohmann::json to_json(const ModuleDefinition& definition) {
  if (!definition.file.empty()) return {{kFile, definition.file}};
  if (!definition.archive.empty()) return {{kArchive, to_base64(definition.archive)}};
  return {{kSource, definition.source}};
}

nlohmann::json with_archives(nlohmann::json document) {
  for_files_of_modules(document, [](nlohmann::json& module) {
    module[kArchive] = to_base64(contents_of(module[kFile].get<std::string>()));
    module.erase(kFile);
  });
  return document;
}

}  // namespace tsq
