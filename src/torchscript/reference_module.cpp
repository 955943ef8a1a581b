#include "torchscript/reference_module.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "base/text.h"

namespace tsq {
namespace {

using torch::jit::Module;

constexpr std::string_view kPyTorchs = "torch.ao.nn.quantized.reference.";
constexpr std::array<std::string_view, 14> kClasses{"Conv1d",
                                                    "Conv2d",
                                                    "Conv3d",
                                                    "ConvTranspose1d",
                                                    "ConvTranspose2d",
                                                    "ConvTranspose3d",
                                                    "Embedding",
                                                    "EmbeddingBag",
                                                    "GRU",
                                                    "GRUCell",
                                                    "LSTM",
                                                    "LSTMCell",
                                                    "Linear",
                                                    "RNNCell"};

std::mutex& registry_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// By the symbol's name.
std::map<std::string, ReferenceFunction, std::less<>>& registry() {
  static std::map<std::string, ReferenceFunction, std::less<>> functions;
  return functions;
}

/// The class of torch.nn that one of PyTorch's reference modules stands for; empty for others.
std::string root_of(Symbol reference) {
  if (!reference.name.starts_with(kPyTorchs)) return {};
  return fmt::format("torch.nn.{}", reference.name.substr(kPyTorchs.size()));
}

void check_row(const BackendPatternConfig& row, const std::vector<std::string>& names) {
  const Symbol& reference = *row.reference_quantized_module;
  if (std::ranges::find(names, reference.name) == names.end()) {
    const std::vector<std::string_view> known(names.begin(), names.end());
    throw Error(ErrorCode::BadConfig,
                fmt::format("the row of '{}' names the reference module '{}', which nobody registered",
                            to_string(row.key()), reference.name),
                suggestion(reference.name, known));
  }
  const bool is_of_root =
      !row.root_module || root_of(reference).empty() || root_of(reference) == row.root_module->name;
  if (!is_of_root)
    throw Error(
        ErrorCode::BadConfig,
        fmt::format("the row of '{}' swaps '{}' by '{}'", to_string(row.key()), row.root_module->name,
                    reference.name),
        fmt::format("it stands for {} alone; register a reference module of your own", root_of(reference)));
}

/// A value that the module's attribute may hold.
bool fits(const Module& module, const std::string& name, const c10::IValue& value) {
  const auto type = module.type();
  return value.type()->isSubtypeOf(*type->getAttribute(type->getAttributeSlot(name)));
}

void set_where_there(Module& module, const std::string& name, const c10::IValue& value) {
  if (module.hasattr(name) && fits(module, name, value)) module.setattr(name, value);
}

}  // namespace

void register_reference_module(std::string_view name, ReferenceFunction make) {
  const Symbol reference = symbol(name);
  if (reference.kind != SymbolKind::Module || reference.name.starts_with("torch."))
    throw Error(ErrorCode::BadConfig, fmt::format("'{}' cannot be the name of a reference module", name),
                "choose the name of a class of your own, as 'my_package.ReferenceLinear'");
  const std::lock_guard lock(registry_mutex());
  registry().insert_or_assign(std::string(reference.name), std::move(make));
}

std::vector<std::string> reference_module_names() {
  std::vector<std::string> names;
  for (const std::string_view each : kClasses) names.push_back(fmt::format("{}{}", kPyTorchs, each));
  const std::lock_guard lock(registry_mutex());
  for (const auto& [name, ignored] : registry()) names.push_back(name);
  return names;
}

namespace torchscript {

void check_reference_modules(const BackendConfig& backend) {
  const std::vector<std::string> names = reference_module_names();
  for (const BackendPatternConfig& row : backend.configs()) {
    if (row.reference_quantized_module) check_row(row, names);
  }
}

bool is_registered_reference(Symbol reference) {
  const std::lock_guard lock(registry_mutex());
  return registry().contains(reference.name);
}

Module registered_reference(Symbol reference, const Module& float_module, const QParams& weight) {
  ReferenceFunction make;
  {
    const std::lock_guard lock(registry_mutex());
    make = registry().at(std::string(reference.name));
  }
  Module module = make(float_module, weight);
  for (const auto& [name, value] : {std::pair<const char*, c10::IValue>{"weight_scale", weight.scale},
                                    {"weight_zero_point", weight.zero_point},
                                    {"weight_axis", weight.axis},
                                    {"weight_dtype", static_cast<int64_t>(weight.dtype)}})
    set_where_there(module, name, value);
  const auto type = float_module.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i)
    set_where_there(module, type->getAttributeName(i), float_module.attr(type->getAttributeName(i)));
  return module;
}

}  // namespace torchscript
}  // namespace tsq
