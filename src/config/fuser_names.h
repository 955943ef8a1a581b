#pragma once

#include <tsq/backend_config.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The names that PyTorch has for fusers and getters.
namespace tsq {

/// A fuser as PyTorch calls it, and the getters that its table sets beside it. The side of an addition is in
/// the name there and in the root node getter here.
struct FuserName {
  Fuser fuser;
  RootNodeGetter side;
  std::string_view short_name;
  std::string_view module;
  std::string_view name;
  std::string_view root_getter;
  std::string_view extra_getter;
};

std::span<const FuserName> fuser_names();

/// Null where no fuser has the side.
const FuserName* find_fuser_name(Fuser fuser, RootNodeGetter side);
/// The names in a column of the table.
std::vector<std::string_view> getter_names(std::string_view FuserName::*column);
/// A getter that stands beside the row's fuser in PyTorch's table, with its module; empty where none does.
std::string getter_beside_fuser(const BackendPatternConfig& row, std::string_view FuserName::*column);

/// The name without the module that PyTorch keeps it in; hand-written files leave the module out.
std::string_view unqualified(std::string_view name);

/// The value of a registered getter, and its place in the registry.
template <typename Getter>
Getter registered_getter(std::size_t index) {
  return static_cast<Getter>(static_cast<std::size_t>(Getter::Registered) + index);
}
template <typename Getter>
std::size_t registered_index(Getter getter) {
  return static_cast<std::size_t>(getter) - static_cast<std::size_t>(Getter::Registered);
}

}  // namespace tsq
