#include "config/names/fuser_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace tsq {

const FuserName* find_fuser_name(Fuser fuser, RootNodeGetter side) {
  const auto* const found = std::ranges::find_if(
      kFuserNames, [&](const FuserName& known) { return known.fuser == fuser && known.side == side; });
  return found == kFuserNames.end() ? nullptr : found;
}

std::vector<std::string_view> getter_names(std::string_view FuserName::*column) {
  std::vector<std::string_view> names;
  for (const FuserName& fuser : kFuserNames) {
    if (!(fuser.*column).empty()) names.push_back(fuser.*column);
  }
  return names;
}

std::string getter_beside_fuser(const BackendPatternConfig& row, std::string_view FuserName::*column) {
  const FuserName* known =
      row.fuser_method ? find_fuser_name(*row.fuser_method, row.root_node_getter) : nullptr;
  if (known == nullptr || (known->*column).empty()) return {};
  return fmt::format("{}{}", kOneDnnFusers, known->*column);
}

std::string_view unqualified(std::string_view name) {
  for (const std::string_view module : {kFuserMappings, kOneDnnFusers}) {
    if (name.starts_with(module)) return name.substr(module.size());
  }
  return name;
}

}  // namespace tsq
