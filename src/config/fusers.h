#pragma once

#include <tsq/backend_config.h>

#include <string>
#include <string_view>

/// Fusers and getters by name: PyTorch's, tsq's short ones and those that the user registered.
namespace tsq {

/// A fuser, and the side of an addition that PyTorch's name of it tells.
struct NamedFuser {
  Fuser fuser{};
  RootNodeGetter side{RootNodeGetter::Default};
};

/// Throws Error(BadConfig) with the nearest known name, or all of them. The module that PyTorch keeps a
/// function in may be left out.
NamedFuser fuser_from_name(std::string_view name);

/// What to_dict writes; empty where the row has no fuser.
std::string fuser_name(const BackendPatternConfig& row);
std::string root_node_getter_name(const BackendPatternConfig& row);
std::string extra_inputs_getter_name(const BackendPatternConfig& row);
/// PyTorch's name of the getter that an addition's fuser wants.
std::string_view root_node_getter_of(const NamedFuser& fuser);

/// Whether a getter is a function of the user's.
inline bool is_registered(RootNodeGetter getter) { return getter >= RootNodeGetter::Registered; }
inline bool is_registered(ExtraInputsGetter getter) { return getter >= ExtraInputsGetter::Registered; }

/// The function of a registered name. Throws Error(BadConfig) for a name that this process does not have.
FuserFunction registered_fuser(std::string_view name);
/// The functions of registered getters.
RootNodeFunction registered_root_node_getter(RootNodeGetter getter);
ExtraInputsFunction registered_extra_inputs_getter(ExtraInputsGetter getter);

}  // namespace tsq
