#pragma once

#include <tsq/backend_config.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

/// The names that PyTorch has for fusers and getters.
namespace tsq {

inline constexpr std::string_view kFuserMappings = "torch.ao.quantization.fuser_method_mappings.";
inline constexpr std::string_view kOneDnnFusers = "torch.ao.quantization.backend_config.onednn.";

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

inline constexpr std::array kFuserNames{
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
