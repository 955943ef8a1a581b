#include "config/reference_definitions.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <mutex>
#include <regex>
#include <utility>
#include <vector>

#include "base/entries.h"

namespace tsq {
namespace {

using Definitions = std::vector<std::pair<std::string, ReferenceDefinition>>;

std::mutex& definitions_mutex() {
  static std::mutex mutex;
  return mutex;
}

Definitions& definitions() {
  static Definitions known;
  return known;
}

}  // namespace

std::string class_of(const ReferenceDefinition& definition) {
  if (definition.source.empty()) return "File";
  static const std::regex kClass(R"((?:^|\n)class\s+(\w+)\s*\(\s*Module\s*\))");
  std::smatch found;
  if (!std::regex_search(definition.source, found, kClass))
    throw Error(ErrorCode::BadConfig, "the source of a reference module has no class",
                "begin it with \"class Name(Module):\", then the attributes and forward, as TorchScript "
                "writes them");
  return found[1].str();
}

Symbol define_reference_module(const ReferenceDefinition& definition) {
  const std::string base = "json." + class_of(definition);
  const std::lock_guard lock(definitions_mutex());
  std::string name = base;
  for (int i = 1;; ++i) {
    const auto* const found = find_entry(definitions(), name);
    if (found == nullptr) {
      definitions().emplace_back(name, definition);
      return symbol(name);
    }
    if (found->second == definition) return symbol(name);
    name = fmt::format("{}_{}", base, i);
  }
}

std::optional<ReferenceDefinition> reference_definition(Symbol reference) {
  const std::lock_guard lock(definitions_mutex());
  const auto* const found = find_entry(definitions(), reference.name);
  return found == nullptr ? std::nullopt : std::optional(found->second);
}

}  // namespace tsq
