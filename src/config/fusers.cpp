#include "config/fusers.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "base/text.h"

namespace tsq {
namespace {

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

constexpr std::string_view kMappings = "torch.ao.quantization.fuser_method_mappings.";
constexpr std::string_view kOneDnn = "torch.ao.quantization.backend_config.onednn.";
constexpr std::string_view kPoolingGetter =
    "torch.ao.quantization.backend_config._qnnpack_pt2e.get_pooling_configs.<locals>.root_node_getter";

using enum RootNodeGetter;

constexpr std::array kFuserNames{
    FuserName{Fuser::Sequential, Default, "sequential", kMappings,
              "_sequential_wrapper2.<locals>.fuser_method", "", ""},
    FuserName{Fuser::ConvBn, Default, "conv_bn", kMappings, "fuse_conv_bn", "", ""},
    FuserName{Fuser::ConvBnReLU, Default, "conv_bn_relu", kMappings, "fuse_conv_bn_relu", "", ""},
    FuserName{Fuser::LinearBn, Default, "linear_bn", kMappings, "fuse_linear_bn", "", ""},
    FuserName{Fuser::ConvTransposeBn, Default, "convtranspose_bn", kMappings, "fuse_convtranspose_bn", "",
              ""},
    FuserName{Fuser::LinearBnLeakyReLU, Default, "linear_bn_leaky_relu", kOneDnn,
              "_fuse_linear_bn_leaky_relu", "", ""},
    FuserName{Fuser::ConvAdd, ConvLeft, "conv_add", kOneDnn, "_fuse_conv_add_left",
              "_conv_add_root_node_getter_left", "_conv_add_extra_inputs_getter_left"},
    FuserName{Fuser::ConvAdd, ConvRight, "conv_add", kOneDnn, "_fuse_conv_add_right",
              "_conv_add_root_node_getter_right", "_conv_add_extra_inputs_getter_right"},
    FuserName{Fuser::ConvBnAdd, ConvLeft, "conv_bn_add", kOneDnn, "_fuse_conv_bn_add_left",
              "_conv_bn_add_root_node_getter_left", "_conv_bn_add_extra_inputs_getter_left"},
    FuserName{Fuser::ConvBnAdd, ConvRight, "conv_bn_add", kOneDnn, "_fuse_conv_bn_add_right",
              "_conv_bn_add_root_node_getter_right", "_conv_bn_add_extra_inputs_getter_right"},
    FuserName{Fuser::ConvAddReLU, ConvLeft, "conv_add_relu", kOneDnn, "_fuse_conv_add_relu_left",
              "_conv_add_relu_root_node_getter_left", "_conv_add_relu_extra_inputs_getter_left"},
    FuserName{Fuser::ConvAddReLU, ConvRight, "conv_add_relu", kOneDnn, "_fuse_conv_add_relu_right",
              "_conv_add_relu_root_node_getter_right", "_conv_add_relu_extra_inputs_getter_right"},
    FuserName{Fuser::ConvBnAddReLU, ConvLeft, "conv_bn_add_relu", kOneDnn, "_fuse_conv_bn_add_relu_left",
              "_conv_bn_add_relu_root_node_getter_left", "_conv_bn_add_relu_extra_inputs_getter_left"},
    FuserName{Fuser::ConvBnAddReLU, ConvRight, "conv_bn_add_relu", kOneDnn, "_fuse_conv_bn_add_relu_right",
              "_conv_bn_add_relu_root_node_getter_right", "_conv_bn_add_relu_extra_inputs_getter_right"},
};

struct GetterName {
  RootNodeGetter getter;
  std::string_view name;
};
constexpr std::array kGetterNames{GetterName{ConvLeft, "conv_left"}, GetterName{ConvRight, "conv_right"},
                                  GetterName{FirstArgument, "first_argument"},
                                  GetterName{Default, "default"}};
constexpr std::string_view kOtherAddend = "other_addend";

/// The name without the module that PyTorch keeps it in; hand-written files leave the module out.
std::string_view unqualified(std::string_view name) {
  for (const std::string_view module : {kMappings, kOneDnn}) {
    if (name.starts_with(module)) return name.substr(module.size());
  }
  return name;
}

bool is_reversing_closure(std::string_view name) {
  return name == "_reverse_sequential_wrapper2.<locals>.fuser_method" ||
         name == "_reverse2.<locals>.reversed" || name == "_reverse3.<locals>.reversed";
}

const FuserName* fuser_of(Fuser fuser, RootNodeGetter side) {
  const auto found = std::ranges::find_if(
      kFuserNames, [&](const FuserName& known) { return known.fuser == fuser && known.side == side; });
  return found == kFuserNames.end() ? nullptr : &*found;
}

std::optional<NamedFuser> shipped_fuser(std::string_view given) {
  const std::string_view name = unqualified(given);
  if (is_reversing_closure(name)) return NamedFuser{Fuser::Sequential};
  for (const FuserName& known : kFuserNames) {
    if (known.name == name) return NamedFuser{known.fuser, known.side};
    if (known.short_name == name) return NamedFuser{known.fuser};
  }
  return std::nullopt;
}

std::optional<RootNodeGetter> shipped_root_getter(std::string_view given) {
  const std::string_view name = unqualified(given);
  if (given == kPoolingGetter || given == "get_pooling_configs.<locals>.root_node_getter")
    return FirstArgument;
  if (name == "_default_root_node_getter") return Default;
  for (const FuserName& known : kFuserNames) {
    if (!known.root_getter.empty() && known.root_getter == name) return known.side;
  }
  for (const GetterName& known : kGetterNames) {
    if (known.name == name) return known.getter;
  }
  return std::nullopt;
}

std::optional<ExtraInputsGetter> shipped_extra_getter(std::string_view given) {
  const std::string_view name = unqualified(given);
  const bool is_known = name == kOtherAddend || std::ranges::any_of(kFuserNames, [&](const FuserName& known) {
                          return !known.extra_getter.empty() && known.extra_getter == name;
                        });
  return is_known ? std::optional(ExtraInputsGetter::OtherAddend) : std::nullopt;
}

/// Functions of the user's, in the order of their registration.
template <typename Function>
class Registry {
 public:
  void set(const std::string& name, Function function) {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(entries_, name, &Entry::first);
    if (known == entries_.end()) {
      entries_.emplace_back(name, std::move(function));
    } else {
      known->second = std::move(function);
    }
  }
  /// Under a name that nobody writes, which is returned.
  std::string add_without_name(Function function) {
    const std::lock_guard lock(mutex_);
    entries_.emplace_back(fmt::format("<function {}>", entries_.size()), std::move(function));
    return entries_.back().first;
  }
  std::optional<std::size_t> find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(entries_, name, &Entry::first);
    return found == entries_.end() ? std::nullopt
                                   : std::optional(static_cast<std::size_t>(found - entries_.begin()));
  }
  std::pair<std::string, Function> at(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    return entries_.at(index);
  }
  std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, ignored] : entries_) {
      if (!name.starts_with('<')) names.push_back(name);
    }
    return names;
  }

 private:
  using Entry = std::pair<std::string, Function>;
  mutable std::mutex mutex_{};
  std::vector<Entry> entries_{};
};

Registry<FuserFunction>& fusers() {
  static Registry<FuserFunction> registry;
  return registry;
}
Registry<RootNodeFunction>& root_getters() {
  static Registry<RootNodeFunction> registry;
  return registry;
}
Registry<ExtraInputsFunction>& extra_getters() {
  static Registry<ExtraInputsFunction> registry;
  return registry;
}

/// A getter's value and its place in the registry.
template <typename Getter>
Getter getter_at(std::size_t index) {
  return static_cast<Getter>(static_cast<std::size_t>(Getter::Registered) + index);
}
template <typename Getter>
std::size_t index_of(Getter getter) {
  return static_cast<std::size_t>(getter) - static_cast<std::size_t>(Getter::Registered);
}

void check_new_name(std::string_view what, const std::string& name, bool is_shipped) {
  if (name.empty()) throw Error(ErrorCode::BadConfig, fmt::format("a {} is registered without a name", what));
  if (is_shipped || name.starts_with('<'))
    throw Error(ErrorCode::BadConfig, fmt::format("the name '{}' of a {} is taken", name, what),
                "choose one of your own, as 'my.name'");
}

[[noreturn]] void fail_unknown(std::string_view what, std::string_view name,
                               std::vector<std::string_view> shipped, const std::vector<std::string>& own) {
  shipped.insert(shipped.end(), own.begin(), own.end());
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not {}", name, what),
              suggestion(unqualified(name), shipped) + ", or register one under this name");
}

}  // namespace

NamedFuser fuser_from_name(std::string_view name) {
  if (const auto shipped = shipped_fuser(name)) return *shipped;
  if (fusers().find(name)) return {Fuser::Registered};
  std::vector<std::string_view> known;
  for (const FuserName& fuser : kFuserNames) {
    if (std::ranges::find(known, fuser.short_name) == known.end()) known.push_back(fuser.short_name);
  }
  for (const FuserName& fuser : kFuserNames) {
    if (fuser.fuser != Fuser::Sequential && nearest(unqualified(name), std::array{fuser.name}) == fuser.name)
      known.push_back(fuser.name);
  }
  fail_unknown("a fuser", name, known, fusers().names());
}

RootNodeGetter root_node_getter_from_name(std::string_view name) {
  if (const auto shipped = shipped_root_getter(name)) return *shipped;
  if (const auto index = root_getters().find(name)) return getter_at<RootNodeGetter>(*index);
  std::vector<std::string_view> known;
  for (const GetterName& getter : kGetterNames) known.push_back(getter.name);
  for (const FuserName& fuser : kFuserNames) {
    if (!fuser.root_getter.empty()) known.push_back(fuser.root_getter);
  }
  fail_unknown("a root node getter", name, known, root_getters().names());
}

ExtraInputsGetter extra_inputs_getter_from_name(std::string_view name) {
  if (const auto shipped = shipped_extra_getter(name)) return *shipped;
  if (const auto index = extra_getters().find(name)) return getter_at<ExtraInputsGetter>(*index);
  std::vector<std::string_view> known{kOtherAddend};
  for (const FuserName& fuser : kFuserNames) {
    if (!fuser.extra_getter.empty()) known.push_back(fuser.extra_getter);
  }
  fail_unknown("an extra inputs getter", name, known, extra_getters().names());
}

std::string default_fuser_name(const BackendPatternConfig& row) {
  if (!row.fuser_method || *row.fuser_method == Fuser::Registered) return {};
  if (const FuserName* known = fuser_of(*row.fuser_method, row.root_node_getter))
    return fmt::format("{}{}", known->module, known->name);
  const auto any = std::ranges::find(kFuserNames, *row.fuser_method, &FuserName::fuser);
  return std::string(any->short_name);
}

std::string fuser_name(const BackendPatternConfig& row) {
  return row.fuser_method_name.empty() ? default_fuser_name(row) : row.fuser_method_name;
}

std::string root_node_getter_name(const BackendPatternConfig& row) {
  if (is_registered(row.root_node_getter)) return root_getters().at(index_of(row.root_node_getter)).first;
  if (row.root_node_getter == FirstArgument) return std::string(kPoolingGetter);
  if (row.fuser_method) {
    const FuserName* known = fuser_of(*row.fuser_method, row.root_node_getter);
    if (known != nullptr && !known->root_getter.empty())
      return fmt::format("{}{}", kOneDnn, known->root_getter);
  }
  return std::string(std::ranges::find(kGetterNames, row.root_node_getter, &GetterName::getter)->name);
}

std::string extra_inputs_getter_name(const BackendPatternConfig& row) {
  if (is_registered(row.extra_inputs_getter))
    return extra_getters().at(index_of(row.extra_inputs_getter)).first;
  if (row.fuser_method) {
    const FuserName* known = fuser_of(*row.fuser_method, row.root_node_getter);
    if (known != nullptr && !known->extra_getter.empty())
      return fmt::format("{}{}", kOneDnn, known->extra_getter);
  }
  return std::string(kOtherAddend);
}

std::string_view root_node_getter_of(const NamedFuser& fuser) {
  const FuserName* known = fuser_of(fuser.fuser, fuser.side);
  return known == nullptr ? std::string_view{} : known->root_getter;
}

FuserFunction registered_fuser(std::string_view name) {
  if (const auto index = fusers().find(name)) return fusers().at(*index).second;
  throw Error(ErrorCode::BadConfig, fmt::format("no fuser is registered as '{}'", name),
              "call register_fuser before");
}

RootNodeFunction registered_root_node_getter(RootNodeGetter getter) {
  return root_getters().at(index_of(getter)).second;
}

ExtraInputsFunction registered_extra_inputs_getter(ExtraInputsGetter getter) {
  return extra_getters().at(index_of(getter)).second;
}

void register_fuser(std::string name, FuserFunction fuser) {
  check_new_name("fuser", name, shipped_fuser(name).has_value());
  fusers().set(name, std::move(fuser));
}

void register_root_node_getter(std::string name, RootNodeFunction getter) {
  check_new_name("root node getter", name, shipped_root_getter(name).has_value());
  root_getters().set(name, std::move(getter));
}

void register_extra_inputs_getter(std::string name, ExtraInputsFunction getter) {
  check_new_name("extra inputs getter", name, shipped_extra_getter(name).has_value());
  extra_getters().set(name, std::move(getter));
}

BackendPatternConfig& BackendPatternConfig::set_fuser_method(Fuser fuser) {
  fuser_method = fuser;
  fuser_method_name.clear();
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_fuser_method(std::string_view name) {
  const NamedFuser found = fuser_from_name(name);
  if (found.side != Default) root_node_getter = found.side;
  set_fuser_method(found.fuser);
  if (default_fuser_name(*this) != name) fuser_method_name = name;
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_fuser_method(FuserFunction fuser) {
  fuser_method = Fuser::Registered;
  fuser_method_name = fusers().add_without_name(std::move(fuser));
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_root_node_getter(RootNodeGetter getter) {
  root_node_getter = getter;
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_root_node_getter(std::string_view name) {
  return set_root_node_getter(root_node_getter_from_name(name));
}

BackendPatternConfig& BackendPatternConfig::set_root_node_getter(RootNodeFunction getter) {
  return set_root_node_getter(std::string_view(root_getters().add_without_name(std::move(getter))));
}

BackendPatternConfig& BackendPatternConfig::set_extra_inputs_getter(ExtraInputsGetter getter) {
  extra_inputs_getter = getter;
  return *this;
}

BackendPatternConfig& BackendPatternConfig::set_extra_inputs_getter(std::string_view name) {
  return set_extra_inputs_getter(extra_inputs_getter_from_name(name));
}

BackendPatternConfig& BackendPatternConfig::set_extra_inputs_getter(ExtraInputsFunction getter) {
  return set_extra_inputs_getter(std::string_view(extra_getters().add_without_name(std::move(getter))));
}

}  // namespace tsq
