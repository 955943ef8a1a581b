#include "torchscript/modules/reference/reference_module.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>

#include "base/module_source.h"
#include "base/registry.h"
#include "base/text.h"
#include "base/user_call.h"
#include "config/reference_definitions.h"
#include "torchscript/modules/defined_module.h"
#include "torchscript/modules/reference/reference_kind.h"

namespace tsq {
namespace {

using torch::jit::Module;

constexpr std::string_view kPyTorchs = "torch.ao.nn.quantized.reference.";

/// Every reference module of PyTorch's.
const std::array<const torchscript::ReferenceKind*, 14> kKinds{
    &torchscript::reference_conv1d,
    &torchscript::reference_conv2d,
    &torchscript::reference_conv3d,
    &torchscript::reference_conv_transpose1d,
    &torchscript::reference_conv_transpose2d,
    &torchscript::reference_conv_transpose3d,
    &torchscript::reference_embedding_table,
    &torchscript::reference_embedding_bag,
    &torchscript::reference_gru,
    &torchscript::reference_gru_cell,
    &torchscript::reference_lstm,
    &torchscript::reference_lstm_cell,
    &torchscript::reference_linear,
    &torchscript::reference_rnn_cell,
};

const torchscript::ReferenceKind* find_kind(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &torchscript::ReferenceKind::name);
  return found == kKinds.end() ? nullptr : *found;
}

/// By the symbol's name.
Registry<ReferenceFunction>& reference_functions() {
  static Registry<ReferenceFunction> functions;
  return functions;
}

/// The class of torch.nn that one of PyTorch's reference modules stands for; empty for others.
std::string root_of(Symbol reference) {
  if (!reference.name.starts_with(kPyTorchs)) return {};
  return fmt::format("torch.nn.{}", reference.name.substr(kPyTorchs.size()));
}

void check_row(const BackendPatternConfig& row, const std::vector<std::string>& names) {
  const Symbol& reference = *row.reference_quantized_module;
  if (reference_definition(reference)) return;
  if (std::ranges::find(names, reference.name) == names.end()) {
    const std::vector<std::string_view> known(names.begin(), names.end());
    throw Error(ErrorCode::BadConfig,
                fmt::format("the row of '{}' names the reference module '{}', which nobody registered",
                            to_string(row.key()), reference.name),
                suggestion(reference.name, known));
  }
  const std::string root = root_of(reference);
  // A class of the user's is read by its attributes.
  const bool is_other_layer =
      row.root_module && row.root_module->name.starts_with("torch.nn.") && row.root_module->name != root;
  if (!root.empty() && is_other_layer)
    throw Error(ErrorCode::BadConfig,
                fmt::format("the row of '{}' swaps '{}' by '{}'", to_string(row.key()), row.root_module->name,
                            reference.name),
                fmt::format("it stands for {} alone; register a reference module of your own", root));
}

Module new_reference(Symbol reference, const Module& float_module, const QParams& weight,
                     const Where& where) {
  if (const auto definition = reference_definition(reference))
    return torchscript::defined_module(*definition, "reference module");
  const ReferenceFunction function = reference_functions().find(reference.name).value();
  return call_of_user(fmt::format("the function of the reference module '{}'", reference.name), where,
                      [&] { return function(float_module, weight); });
}

}  // namespace

void register_reference_module(std::string_view name, ReferenceFunction make) {
  const Symbol reference = symbol(name);
  if (reference.kind != SymbolKind::Module || reference.name.starts_with("torch."))
    throw Error(ErrorCode::BadConfig, fmt::format("'{}' cannot be the name of a reference module", name),
                "choose the name of a class of your own, as 'my_package.ReferenceLinear'");
  reference_functions().set(std::string(reference.name), std::move(make));
}

std::vector<std::string> reference_module_names() {
  std::vector<std::string> names;
  for (const torchscript::ReferenceKind* each : kKinds)
    names.push_back(fmt::format("{}{}", kPyTorchs, each->name));
  std::vector<std::string> own = reference_functions().names();
  std::ranges::sort(own);
  names.insert(names.end(), own.begin(), own.end());
  return names;
}

namespace torchscript {

void check_reference_modules(const BackendConfig& backend) {
  const std::vector<std::string> names = reference_module_names();
  for (const BackendPatternConfig& row : backend.configs()) {
    if (row.reference_quantized_module) check_row(row, names);
  }
}

std::optional<Symbol> pytorch_class_of(Symbol reference) {
  const std::string root = root_of(reference);
  return root.empty() ? std::nullopt : std::optional(symbol(root));
}

const ReferenceKind* reference_kind_of(const ir::ModuleCall& call) {
  if (call.embedding) return call.embedding->is_bag ? &reference_embedding_bag : &reference_embedding_table;
  constexpr std::string_view kLayers = "torch.nn.";
  return call.type.name.starts_with(kLayers) ? find_kind(call.type.name.substr(kLayers.size())) : nullptr;
}

bool read_as(Symbol reference, ir::ModuleCall& root) {
  const std::string type = root_of(reference);
  const ReferenceKind* kind = find_kind(bare_name(type));
  return kind != nullptr && kind->read != nullptr && kind->read(symbol(type), root);
}

bool is_registered_reference(Symbol reference) {
  return reference_definition(reference) || reference_functions().index_of(reference.name);
}

Module registered_reference(Symbol reference, const Module& float_module, const QParams& weight,
                            std::size_t values, const Where& where) {
  Module module = new_reference(reference, float_module, weight, where);
  check_call(module, values, fmt::format("the reference module '{}' is", reference.name), where);
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
