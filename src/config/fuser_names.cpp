#include "config/fuser_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/program/table_rows.h"

namespace tsq {
namespace {

constexpr std::string_view kFuserMappings = "torch.ao.quantization.fuser_method_mappings.";
constexpr std::string_view kOneDnnFusers = "torch.ao.quantization.backend_config.onednn.";

constexpr std::array kFuserNames{
    FuserName{Fuser::Sequential, RootNodeGetter::Default, "sequential", kFuserMappings,
              "_sequential_wrapper2.<locals>.fuser_method", "", ""},
    FuserName{Fuser::ConvBn, RootNodeGetter::Default, "conv_bn", kFuserMappings, "fuse_conv_bn", "", ""},
    FuserName{Fuser::ConvBnReLU, RootNodeGetter::Default, "conv_bn_relu", kFuserMappings, "fuse_conv_bn_relu",
              "", ""},
    FuserName{Fuser::LinearBn, RootNodeGetter::Default, "linear_bn", kFuserMappings, "fuse_linear_bn", "",
              ""},
    FuserName{Fuser::ConvTransposeBn, RootNodeGetter::Default, "convtranspose_bn", kFuserMappings,
              "fuse_convtranspose_bn", "", ""},
    FuserName{Fuser::LinearBnLeakyReLU, RootNodeGetter::Default, "linear_bn_leaky_relu", kOneDnnFusers,
              "_fuse_linear_bn_leaky_relu", "", ""},
    FuserName{Fuser::ConvAdd, RootNodeGetter::ConvLeft, "conv_add", kOneDnnFusers, "_fuse_conv_add_left",
              "_conv_add_root_node_getter_left", "_conv_add_extra_inputs_getter_left"},
    FuserName{Fuser::ConvAdd, RootNodeGetter::ConvRight, "conv_add", kOneDnnFusers, "_fuse_conv_add_right",
              "_conv_add_root_node_getter_right", "_conv_add_extra_inputs_getter_right"},
    FuserName{Fuser::ConvBnAdd, RootNodeGetter::ConvLeft, "conv_bn_add", kOneDnnFusers,
              "_fuse_conv_bn_add_left", "_conv_bn_add_root_node_getter_left",
              "_conv_bn_add_extra_inputs_getter_left"},
    FuserName{Fuser::ConvBnAdd, RootNodeGetter::ConvRight, "conv_bn_add", kOneDnnFusers,
              "_fuse_conv_bn_add_right", "_conv_bn_add_root_node_getter_right",
              "_conv_bn_add_extra_inputs_getter_right"},
    FuserName{Fuser::ConvAddReLU, RootNodeGetter::ConvLeft, "conv_add_relu", kOneDnnFusers,
              "_fuse_conv_add_relu_left", "_conv_add_relu_root_node_getter_left",
              "_conv_add_relu_extra_inputs_getter_left"},
    FuserName{Fuser::ConvAddReLU, RootNodeGetter::ConvRight, "conv_add_relu", kOneDnnFusers,
              "_fuse_conv_add_relu_right", "_conv_add_relu_root_node_getter_right",
              "_conv_add_relu_extra_inputs_getter_right"},
    FuserName{Fuser::ConvBnAddReLU, RootNodeGetter::ConvLeft, "conv_bn_add_relu", kOneDnnFusers,
              "_fuse_conv_bn_add_relu_left", "_conv_bn_add_relu_root_node_getter_left",
              "_conv_bn_add_relu_extra_inputs_getter_left"},
    FuserName{Fuser::ConvBnAddReLU, RootNodeGetter::ConvRight, "conv_bn_add_relu", kOneDnnFusers,
              "_fuse_conv_bn_add_relu_right", "_conv_bn_add_relu_root_node_getter_right",
              "_conv_bn_add_relu_extra_inputs_getter_right"},
};

}  // namespace

std::span<const FuserName> fuser_names() {
  static const TableRows<FuserName> kRows("fusers", kFuserNames);
  return kRows.rows();
}

const FuserName* find_fuser_name(Fuser fuser, RootNodeGetter side) {
  const std::span<const FuserName> names = fuser_names();
  const auto found = std::ranges::find_if(
      names, [&](const FuserName& known) { return known.fuser == fuser && known.side == side; });
  return found == names.end() ? nullptr : &*found;
}

std::vector<std::string_view> getter_names(std::string_view FuserName::*column) {
  std::vector<std::string_view> names;
  for (const FuserName& fuser : fuser_names()) {
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
