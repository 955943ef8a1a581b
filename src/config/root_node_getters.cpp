#include <algorithm>
#include <optional>

#include "base/registry.h"
#include "base/text.h"
#include "config/fuser_names.h"
#include "config/fusers.h"
#include "config/names/registered_names.h"

namespace tsq {
namespace {

using enum RootNodeGetter;

constexpr std::string_view kPoolingGetter =
    "torch.ao.quantization.backend_config._qnnpack_pt2e.get_pooling_configs.<locals>.root_node_getter";

struct GetterName {
  RootNodeGetter getter;
  std::string_view name;
};
constexpr std::array kGetterNames{GetterName{ConvLeft, "conv_left"}, GetterName{ConvRight, "conv_right"},
                                  GetterName{FirstArgument, "first_argument"},
                                  GetterName{Default, "default"}};

std::optional<RootNodeGetter> shipped_root_getter(std::string_view given) {
  const std::string_view name = unqualified(given);
  if (given == kPoolingGetter || given == "get_pooling_configs.<locals>.root_node_getter")
    return FirstArgument;
  if (name == "_default_root_node_getter") return Default;
  for (const FuserName& known : fuser_names()) {
    if (!known.root_getter.empty() && known.root_getter == name) return known.side;
  }
  for (const GetterName& known : kGetterNames) {
    if (known.name == name) return known.getter;
  }
  return std::nullopt;
}

/// Throws Error(BadConfig) with the nearest known name, or all of them.
RootNodeGetter root_node_getter_from_name(std::string_view name) {
  if (const auto shipped = shipped_root_getter(name)) return *shipped;
  if (const auto index = registry_of<RootNodeFunction>().index_of(name))
    return registered_getter<RootNodeGetter>(*index);
  std::vector<std::string_view> known = names_of(kGetterNames, &GetterName::name);
  const auto beside_fusers = getter_names(&FuserName::root_getter);
  known.insert(known.end(), beside_fusers.begin(), beside_fusers.end());
  fail_unknown("a root node getter", name, unqualified(name), known, registry_of<RootNodeFunction>().names());
}

}  // namespace

std::string root_node_getter_name(const BackendPatternConfig& row) {
  if (is_registered(row.root_node_getter))
    return registry_of<RootNodeFunction>().at(registered_index(row.root_node_getter)).first;
  if (row.root_node_getter == FirstArgument) return std::string(kPoolingGetter);
  std::string name = getter_beside_fuser(row, &FuserName::root_getter);
  if (!name.empty()) return name;
  return std::string(std::ranges::find(kGetterNames, row.root_node_getter, &GetterName::getter)->name);
}

std::string_view root_node_getter_of(const NamedFuser& fuser) {
  const FuserName* known = find_fuser_name(fuser.fuser, fuser.side);
  return known == nullptr ? std::string_view{} : known->root_getter;
}

RootNodeFunction registered_root_node_getter(RootNodeGetter getter) {
  return registry_of<RootNodeFunction>().at(registered_index(getter)).second;
}

void register_root_node_getter(std::string name, RootNodeFunction getter) {
  check_new_name("root node getter", name, shipped_root_getter(name).has_value());
  registry_of<RootNodeFunction>().set(std::move(name), std::move(getter));
}

BackendPatternConfig& BackendPatternConfig::set_root_node_getter(RootNodeGetter getter) {
  root_node_getter = getter;
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_root_node_getter(std::string_view name) {
  return set_root_node_getter(root_node_getter_from_name(name));
}

BackendPatternConfig& BackendPatternConfig::set_root_node_getter(RootNodeFunction getter) {
  return set_root_node_getter(
      std::string_view(registry_of<RootNodeFunction>().add_without_name(std::move(getter))));
}

}  // namespace tsq
