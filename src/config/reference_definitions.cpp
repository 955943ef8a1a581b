#include "config/reference_definitions.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>
#include <vector>

#include "base/entries.h"
#include "base/module_source.h"

namespace tsq {
namespace {

using Definitions = std::vector<std::pair<std::string, ModuleDefinition>>;

std::mutex& definitions_mutex() {
  static std::mutex mutex;
  return mutex;
}

Definitions& definitions() {
  static Definitions known;
  return known;
}

}  // namespace

Symbol define_reference_module(const ModuleDefinition& definition) {
  const std::string& source = definition.source;
  const std::string base = "json." + (source.empty() ? "File" : class_in_source(source, "reference module"));
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

std::optional<ModuleDefinition> reference_definition(Symbol reference) {
  const std::lock_guard lock(definitions_mutex());
  const auto* const found = find_entry(definitions(), reference.name);
  return found == nullptr ? std::nullopt : std::optional(found->second);
}

}  // namespace tsq
