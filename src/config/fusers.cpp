#include "config/fusers.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
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

[[noreturn]] void fail_unknown(std::string_view what, std::string_view name,
                               const std::vector<std::string_view>& known) {
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not {}", name, what),
              suggestion(unqualified(name), known));
}

}  // namespace

NamedFuser fuser_from_name(std::string_view name) {
  if (const auto shipped = shipped_fuser(name)) return *shipped;
  std::vector<std::string_view> known;
  for (const FuserName& fuser : kFuserNames) {
    if (std::ranges::find(known, fuser.short_name) == known.end()) known.push_back(fuser.short_name);
  }
  for (const FuserName& fuser : kFuserNames) {
    if (fuser.fuser != Fuser::Sequential && nearest(unqualified(name), std::array{fuser.name}) == fuser.name)
      known.push_back(fuser.name);
  }
  fail_unknown("a fuser", name, known);
}

RootNodeGetter root_node_getter_from_name(std::string_view name) {
  if (const auto shipped = shipped_root_getter(name)) return *shipped;
  std::vector<std::string_view> known;
  for (const GetterName& getter : kGetterNames) known.push_back(getter.name);
  for (const FuserName& fuser : kFuserNames) {
    if (!fuser.root_getter.empty()) known.push_back(fuser.root_getter);
  }
  fail_unknown("a root node getter", name, known);
}

ExtraInputsGetter extra_inputs_getter_from_name(std::string_view name) {
  if (const auto shipped = shipped_extra_getter(name)) return *shipped;
  std::vector<std::string_view> known{kOtherAddend};
  for (const FuserName& fuser : kFuserNames) {
    if (!fuser.extra_getter.empty()) known.push_back(fuser.extra_getter);
  }
  fail_unknown("an extra inputs getter", name, known);
}

std::string default_fuser_name(const BackendPatternConfig& row) {
  if (!row.fuser_method) return {};
  if (const FuserName* known = fuser_of(*row.fuser_method, row.root_node_getter))
    return fmt::format("{}{}", known->module, known->name);
  const auto any = std::ranges::find(kFuserNames, *row.fuser_method, &FuserName::fuser);
  return std::string(any->short_name);
}

std::string fuser_name(const BackendPatternConfig& row) {
  return row.fuser_method_name.empty() ? default_fuser_name(row) : row.fuser_method_name;
}

std::string root_node_getter_name(const BackendPatternConfig& row) {
  if (row.root_node_getter == FirstArgument) return std::string(kPoolingGetter);
  if (row.fuser_method) {
    const FuserName* known = fuser_of(*row.fuser_method, row.root_node_getter);
    if (known != nullptr && !known->root_getter.empty())
      return fmt::format("{}{}", kOneDnn, known->root_getter);
  }
  return std::string(std::ranges::find(kGetterNames, row.root_node_getter, &GetterName::getter)->name);
}

std::string extra_inputs_getter_name(const BackendPatternConfig& row) {
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

}  // namespace tsq
