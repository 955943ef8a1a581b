#include "config/fuser_names.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>

#include "base/text.h"

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

void check_new_name(std::string_view what, std::string_view name, bool is_shipped) {
  if (name.empty()) throw Error(ErrorCode::BadConfig, fmt::format("a {} is registered without a name", what));
  if (is_shipped || name.starts_with('<'))
    throw Error(ErrorCode::BadConfig, fmt::format("the name '{}' of a {} is taken", name, what),
                "choose one of your own, as 'my.name'");
}

void fail_unknown(std::string_view what, std::string_view name, std::vector<std::string_view> shipped,
                  const std::vector<std::string>& own) {
  shipped.insert(shipped.end(), own.begin(), own.end());
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not {}", name, what),
              suggestion(unqualified(name), shipped) + ", or register one under this name");
}

}  // namespace tsq
