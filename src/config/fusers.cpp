#include "config/fusers.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <optional>

#include "base/registry.h"
#include "base/text.h"
#include "config/fuser_names.h"
#include "config/names/registered_names.h"

namespace tsq {
namespace {

bool is_reversing_closure(std::string_view name) {
  return name == "_reverse_sequential_wrapper2.<locals>.fuser_method" ||
         name == "_reverse2.<locals>.reversed" || name == "_reverse3.<locals>.reversed";
}

std::optional<NamedFuser> shipped_fuser(std::string_view given) {
  const std::string_view name = unqualified(given);
  if (is_reversing_closure(name)) return NamedFuser{Fuser::Sequential};
  for (const FuserName& known : fuser_names()) {
    if (known.name == name) return NamedFuser{known.fuser, known.side};
    if (known.short_name == name) return NamedFuser{known.fuser};
  }
  return std::nullopt;
}

/// The name of the fuser for a row that does not spell it otherwise.
std::string default_fuser_name(const BackendPatternConfig& row) {
  if (!row.fuser_method || *row.fuser_method == Fuser::Registered) return {};
  if (const FuserName* sided = find_fuser_name(*row.fuser_method, row.root_node_getter))
    return fmt::format("{}{}", sided->module, sided->name);
  const std::span<const FuserName> names = fuser_names();
  const auto known = std::ranges::find(names, *row.fuser_method, &FuserName::fuser);
  return known == names.end() ? std::string() : std::string(known->short_name);
}

}  // namespace

NamedFuser fuser_from_name(std::string_view name) {
  if (const auto shipped = shipped_fuser(name)) return *shipped;
  if (registry_of<FuserFunction>().index_of(name)) return {Fuser::Registered};
  std::vector<std::string_view> known;
  for (const FuserName& fuser : fuser_names()) {
    if (std::ranges::find(known, fuser.short_name) == known.end()) known.push_back(fuser.short_name);
  }
  for (const FuserName& fuser : fuser_names()) {
    if (fuser.fuser != Fuser::Sequential && nearest(unqualified(name), std::array{fuser.name}) == fuser.name)
      known.push_back(fuser.name);
  }
  fail_unknown("a fuser", name, unqualified(name), known, registry_of<FuserFunction>().names());
}

std::string fuser_name(const BackendPatternConfig& row) {
  return row.fuser_method_name.empty() ? default_fuser_name(row) : row.fuser_method_name;
}

FuserFunction registered_fuser(std::string_view name) {
  if (auto fuser = registry_of<FuserFunction>().find(name)) return *std::move(fuser);
  throw Error(ErrorCode::BadConfig, fmt::format("no fuser is registered as '{}'", name),
              "call register_fuser before");
}

void register_fuser(std::string name, FuserFunction fuser) {
  check_new_name("fuser", name, shipped_fuser(name).has_value());
  registry_of<FuserFunction>().set(std::move(name), std::move(fuser));
}

BackendPatternConfig& BackendPatternConfig::set_fuser_method(Fuser fuser) {
  fuser_method = fuser;
  fuser_method_name.clear();
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_fuser_method(std::string_view name) {
  const NamedFuser found = fuser_from_name(name);
  if (found.side != RootNodeGetter::Default) root_node_getter = found.side;
  set_fuser_method(found.fuser);
  if (default_fuser_name(*this) != name) fuser_method_name = name;
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_fuser_method(FuserFunction fuser) {
  fuser_method = Fuser::Registered;
  fuser_method_name = registry_of<FuserFunction>().add_without_name(std::move(fuser));
  return *this;
}

}  // namespace tsq
