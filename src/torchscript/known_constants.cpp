#include "torchscript/known_constants.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <array>
#include <string>
#include <utility>

namespace tsq::torchscript {
namespace {

using torch::jit::Module;

enum class ConstantKind { Flag, Whole, Number, NumberOrNone, Word, Module };

/// The names mean the same in all classes of torch.nn that have them.
constexpr std::array<std::pair<const char*, ConstantKind>, 19> kTypes{
    {{"activation_relu_or_gelu", ConstantKind::Whole},
     {"add_zero_attn", ConstantKind::Flag},
     {"batch_first", ConstantKind::Flag},
     {"bidirectional", ConstantKind::Flag},
     {"ceil_mode", ConstantKind::Flag},
     {"embed_dim", ConstantKind::Whole},
     {"eps", ConstantKind::NumberOrNone},
     {"groups", ConstantKind::Whole},
     {"include_last_offset", ConstantKind::Flag},
     {"layers", ConstantKind::Module},
     {"mode", ConstantKind::Word},
     {"momentum", ConstantKind::NumberOrNone},
     {"negative_slope", ConstantKind::Number},
     {"norm_first", ConstantKind::Flag},
     {"num_heads", ConstantKind::Whole},
     {"num_layers", ConstantKind::Whole},
     {"padding_mode", ConstantKind::Word},
     {"self_attn", ConstantKind::Module},
     {"use_nested_tensor", ConstantKind::Flag}}};

bool has_kind(const c10::IValue& value, ConstantKind kind) {
  switch (kind) {
    case ConstantKind::Flag:
      return value.isBool();
    case ConstantKind::Whole:
      return value.isInt();
    case ConstantKind::Number:
      return value.isDouble() || value.isInt();
    case ConstantKind::NumberOrNone:
      return value.isNone() || has_kind(value, ConstantKind::Number);
    case ConstantKind::Word:
      return value.isString();
    case ConstantKind::Module:
      return value.isModule();
  }
  return false;
}

const char* words_for(ConstantKind kind) {
  switch (kind) {
    case ConstantKind::Flag:
      return "a bool";
    case ConstantKind::Whole:
      return "an int";
    case ConstantKind::Number:
    case ConstantKind::NumberOrNone:
      return "a float";
    case ConstantKind::Word:
      return "a str";
    case ConstantKind::Module:
      return "a module";
  }
  return "";
}

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
    if (has_kind(value, kind)) continue;
    throw Error(ErrorCode::BadModel,
                fmt::format("'{}' is a value of type {}, and in PyTorch's {} it is {}", name,
                            value.type()->repr_str(), type, words_for(kind)),
                "export the model again", Where{.layer = path, .op = type});
  }
}

}  // namespace

void check_known_constants(const Module& model) {
  for (const auto& named : model.named_modules()) check_layer(named.name, named.value);
}

}  // namespace tsq::torchscript
