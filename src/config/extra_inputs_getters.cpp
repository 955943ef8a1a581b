#include <algorithm>
#include <optional>

#include "base/registry.h"
#include "config/fuser_names.h"
#include "config/fusers.h"
#include "config/names/registered_names.h"

namespace tsq {
namespace {

constexpr std::string_view kOtherAddend = "other_addend";

/// The known names, tsq's own first.
std::vector<std::string_view> shipped_extra_getters() {
  std::vector<std::string_view> names = getter_names(&FuserName::extra_getter);
  names.insert(names.begin(), kOtherAddend);
  return names;
}

bool is_shipped_extra_getter(std::string_view name) {
  return std::ranges::count(shipped_extra_getters(), unqualified(name)) > 0;
}

/// Throws Error(BadConfig) with the nearest known name, or all of them.
ExtraInputsGetter extra_inputs_getter_from_name(std::string_view name) {
  if (is_shipped_extra_getter(name)) return ExtraInputsGetter::OtherAddend;
  if (const auto index = registry_of<ExtraInputsFunction>().index_of(name))
    return registered_getter<ExtraInputsGetter>(*index);
  fail_unknown("an extra inputs getter", name, unqualified(name), shipped_extra_getters(),
               registry_of<ExtraInputsFunction>().names());
}

}  // namespace

std::string extra_inputs_getter_name(const BackendPatternConfig& row) {
  if (is_registered(row.extra_inputs_getter))
    return registry_of<ExtraInputsFunction>().at(registered_index(row.extra_inputs_getter)).first;
  std::string name = getter_beside_fuser(row, &FuserName::extra_getter);
  return name.empty() ? std::string(kOtherAddend) : name;
}

ExtraInputsFunction registered_extra_inputs_getter(ExtraInputsGetter getter) {
  return registry_of<ExtraInputsFunction>().at(registered_index(getter)).second;
}

void register_extra_inputs_getter(std::string name, ExtraInputsFunction getter) {
  check_new_name("extra inputs getter", name, is_shipped_extra_getter(name));
  registry_of<ExtraInputsFunction>().set(std::move(name), std::move(getter));
}

BackendPatternConfig& BackendPatternConfig::set_extra_inputs_getter(ExtraInputsGetter getter) {
  extra_inputs_getter = getter;
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_extra_inputs_getter(std::string_view name) {
  return set_extra_inputs_getter(extra_inputs_getter_from_name(name));
}

BackendPatternConfig& BackendPatternConfig::set_extra_inputs_getter(ExtraInputsFunction getter) {
  return set_extra_inputs_getter(
      std::string_view(registry_of<ExtraInputsFunction>().add_without_name(std::move(getter))));
}

}  // namespace tsq
