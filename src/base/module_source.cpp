#include "base/module_source.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import_source.h>
#include <tsq/error.h>

#include <algorithm>
#include <cctype>

#include "base/libtorch_error.h"

namespace tsq {
namespace {

using torch::jit::Module;

/// What an attribute holds until it is set; throws where only its class's __init__ could tell.
c10::IValue empty_value(const c10::TypePtr& type, const std::string& attribute, std::string_view kind) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return at::empty({0});
    case c10::TypeKind::IntType:
      return int64_t{0};
    case c10::TypeKind::FloatType:
      return 0.0;
    case c10::TypeKind::BoolType:
      return false;
    case c10::TypeKind::StringType:
      return "";
    case c10::TypeKind::OptionalType:
      return {};
    default:
      throw Error(ErrorCode::BadConfig,
                  fmt::format("the attribute '{}' of a {} in source form has the type {}", attribute, kind,
                              type->repr_str()),
                  "use Tensor, int, float, bool, str or Optional, or save the module as a file");
  }
}

/// Takes `word`, and the blanks after it, from the front of a text, where it begins so.
bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return true;
}

/// The class of a text that begins with "class Name(Module)"; empty of others.
std::string_view class_of_line(std::string_view text) {
  if (!text.starts_with("class ") && !text.starts_with("class\t")) return {};
  take(text, "class");
  const auto is_of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const auto end = std::ranges::find_if_not(text, is_of_name);
  const std::string_view name(text.begin(), end);
  return take(text, name) && take(text, "(") && take(text, "Module") && text.starts_with(')')
             ? name
             : std::string_view();
}

}  // namespace

std::string class_in_source(std::string_view source, std::string_view kind) {
  for (std::string_view rest = source; !rest.empty();) {
    if (const std::string_view name = class_of_line(rest); !name.empty()) return std::string(name);
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  }
  throw Error(ErrorCode::BadConfig, fmt::format("the source of a {} has no class", kind),
              "begin it with \"class Name(Module):\", then the attributes and forward, as TorchScript "
              "writes them");
}

Module module_of_source(const std::string& package, const std::string& source, std::string_view kind) {
  const std::string name = class_in_source(source, kind);
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  const std::vector<c10::IValue> no_constants;
  const auto loader = [&](const std::string&) { return std::make_shared<torch::jit::Source>(source); };
  // The version of TorchScript sources that this LibTorch writes.
  const torch::jit::SourceImporter importer(unit, &no_constants, loader,
                                            caffe2::serialize::kProducedFileFormatVersion);
  try {
    Module module(unit, importer.loadType(c10::QualifiedName(package + name))->expect<c10::ClassType>());
    for (std::size_t i = 0; i < module.type()->numAttributes(); ++i) {
      const std::string& attribute = module.type()->getAttributeName(i);
      module.setattr(attribute, empty_value(module.type()->getAttribute(i), attribute, kind));
    }
    return module;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::BadConfig,
                fmt::format("the source of the {} '{}' does not compile: {}", kind, name, reason_of(error)),
                "write it as TorchScript does in an archive: types after colons, torch.linear and so on");
  }
}

void set_where_there(Module& module, const std::string& name, const c10::IValue& value) {
  if (!module.hasattr(name)) return;
  const auto type = module.type();
  if (value.type()->isSubtypeOf(*type->getAttribute(type->getAttributeSlot(name))))
    module.setattr(name, value);
}

}  // namespace tsq
