#include "passes/capture/leaf_modules.h"

#include <algorithm>
#include <string_view>

#include "passes/context/names.h"

namespace tsq::passes {

bool is_forward(const std::string& method) {
  constexpr std::string_view kForward = "forward";
  if (!method.starts_with(kForward)) return false;
  const std::string_view number = std::string_view(method).substr(kForward.size());
  return number.starts_with("__") || number.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_leaf_of_user(const CaptureSource& source, const Module& module) {
  const Symbol type = class_symbol(module);
  const std::string path = path_of(source, module);
  const auto& names = source.custom.non_traceable_module_names();
  const auto& classes = source.custom.non_traceable_module_classes();
  return std::ranges::find(names, path) != names.end() || std::ranges::find(classes, type) != classes.end() ||
         source.custom.standalone_module(path, type) != nullptr ||
         source.custom.observed_module(type) != nullptr;
}

bool is_leaf(const CaptureSource& source, const Module& module) {
  if (is_leaf_of_user(source, module)) return true;
  const Symbol type = class_symbol(module);
  const bool is_of_library = type.name.starts_with("torch.nn.") || type.name.starts_with("torch.ao.nn.");
  return is_of_library && type.name != "torch.nn.Sequential" && type.name != "torch.nn.ModuleList" &&
         type.name != "torch.nn.ModuleDict" && type.name != "torch.nn.Module";
}

bool is_stub_of_eager_mode(const Module& module, const ir::Scope& caller) {
  return caller.type.name.ends_with(".FloatFunctional") && class_symbol(module).name == "torch.nn.Identity";
}

}  // namespace tsq::passes
