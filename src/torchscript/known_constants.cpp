#include "torchscript/known_constants.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <array>
#include <string>
#include <utility>

namespace tsq::torchscript {
namespace {

using torch::jit::Module;

struct Kind {
  const char* words;
  bool (*is_of)(const c10::IValue& value);
};
bool is_number(const c10::IValue& value) { return value.isDouble() || value.isInt(); }
constexpr Kind kFlag{"a bool", [](const c10::IValue& value) { return value.isBool(); }};
constexpr Kind kWhole{"an int", [](const c10::IValue& value) { return value.isInt(); }};
constexpr Kind kNumber{"a float", is_number};
constexpr Kind kNumberOrNone{"a float",
                             [](const c10::IValue& value) { return value.isNone() || is_number(value); }};
constexpr Kind kWord{"a str", [](const c10::IValue& value) { return value.isString(); }};
constexpr Kind kModule{"a module", [](const c10::IValue& value) { return value.isModule(); }};

/// The names mean the same in all classes of torch.nn that have them.
constexpr std::array<std::pair<const char*, Kind>, 19> kTypes{{{"activation_relu_or_gelu", kWhole},
                                                               {"add_zero_attn", kFlag},
                                                               {"batch_first", kFlag},
                                                               {"bidirectional", kFlag},
                                                               {"ceil_mode", kFlag},
                                                               {"embed_dim", kWhole},
                                                               {"eps", kNumberOrNone},
                                                               {"groups", kWhole},
                                                               {"include_last_offset", kFlag},
                                                               {"layers", kModule},
                                                               {"mode", kWord},
                                                               {"momentum", kNumberOrNone},
                                                               {"negative_slope", kNumber},
                                                               {"norm_first", kFlag},
                                                               {"num_heads", kWhole},
                                                               {"num_layers", kWhole},
                                                               {"padding_mode", kWord},
                                                               {"self_attn", kModule},
                                                               {"use_nested_tensor", kFlag}}};

/// "BatchNorm2d"; empty for a class that is not of torch.nn.
std::string library_class(const Module& module) {
  const auto name = module.type()->name();
  return name && name->qualifiedName().starts_with("__torch__.torch.nn.") ? name->name() : std::string();
}

void check_layer(const std::string& path, const Module& module) {
  const std::string type = library_class(module);
  if (type.empty()) return;
  for (const auto& [name, kind] : kTypes) {
    if (!module.hasattr(name)) continue;
    const c10::IValue value = module.attr(name);
    if (kind.is_of(value)) continue;
    throw Error(ErrorCode::BadModel,
                fmt::format("'{}' is a value of type {}, and in PyTorch's {} it is {}", name,
                            value.type()->repr_str(), type, kind.words),
                "export the model again", Where{.layer = path, .op = type});
  }
}

}  // namespace

void check_known_constants(const Module& model) {
  for (const auto& named : model.named_modules()) check_layer(named.name, named.value);
}

}  // namespace tsq::torchscript
