#include "torchscript/modules/custom_module.h"

#include <fmt/format.h>
#include <tsq/register_custom_module.h>

#include <string>
#include <utility>
#include <vector>

#include "base/entries.h"
#include "base/module_source.h"
#include "base/registry.h"
#include "base/text.h"
#include "base/user_call.h"
#include "torchscript/modules/defined_module.h"
#include "torchscript/modules/quantizable_lstm.h"

namespace tsq {
namespace {

using torch::jit::Module;

template <typename Function>
void register_class(std::string_view name, std::string_view kind, Function function) {
  const Symbol type = symbol(name);
  if (type.kind != SymbolKind::Module || type.name.starts_with("torch."))
    throw Error(ErrorCode::BadConfig, fmt::format("'{}' cannot be the name of {}", name, kind),
                "choose the name of a class of your own, as 'my_package.Observed'");
  registry_of<Function>().set(std::string(type.name), std::move(function));
}

/// PyTorch's own classes and their functions.
template <typename Function>
using OwnClasses = std::vector<std::pair<std::string_view, Function>>;

/// The function of a class: one of PyTorch's own, or one that the program has registered.
template <typename Function>
Function function_of(Symbol type, const OwnClasses<Function>& own, std::string_view kind,
                     const Where& where) {
  if (const auto* const entry = find_entry(own, type.name)) return entry->second;
  if (auto function = registry_of<Function>().find(type.name)) return *std::move(function);
  const std::vector<std::string> names = registry_of<Function>().names();
  throw Error(ErrorCode::BadConfig,
              fmt::format("the custom config names the {} '{}', which nobody registered", kind, type.name),
              suggestion(type.name, std::vector<std::string_view>(names.begin(), names.end())), where);
}

/// What both modules have, by name and type; modules inside likewise.
void copy_attributes(const Module& from, Module& to) {
  const auto type = to.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    const std::string& name = type->getAttributeName(i);
    if (!from.hasattr(name)) continue;
    const c10::IValue value = from.attr(name);
    if (value.isModule() && to.attr(name).isModule()) {
      Module inside = to.attr(name).toModule();
      copy_attributes(value.toModule(), inside);
    } else {
      set_where_there(to, name, value);
    }
  }
}

void set_weight_qparams(Module& module, const ObserverSpec& spec) {
  if (module.hasattr("weight_scale") && module.hasattr("weight") && module.attr("weight").isTensor()) {
    const QParams weight = observe_once(spec, module.attr("weight").toTensor().detach());
    set_where_there(module, "weight_scale", weight.scale);
    set_where_there(module, "weight_zero_point", weight.zero_point);
    set_where_there(module, "weight_axis", weight.axis);
    set_where_there(module, "weight_dtype", static_cast<int64_t>(weight.dtype));
  }
  for (Module inside : module.children()) set_weight_qparams(inside, spec);
}

void set_output_qparams(Module& module, const QParams& output) {
  if (output.scale.numel() != 1) return;
  set_where_there(module, "output_scale", output.scale.item<double>());
  set_where_there(module, "output_zero_point", output.zero_point.item<int64_t>());
  set_where_there(module, "output_dtype", static_cast<int64_t>(output.dtype));
}

/// get_default_custom_config_dict of torch.ao.quantization; its MultiheadAttention fails in FX.
const OwnClasses<ObservedModuleFunction>& own_observed() {
  static const OwnClasses<ObservedModuleFunction> classes{
      {"torch.ao.nn.quantizable.LSTM", torchscript::quantizable_lstm}};
  return classes;
}

const OwnClasses<QuantizedModuleFunction>& own_quantized() {
  static const OwnClasses<QuantizedModuleFunction> classes{
      {"torch.ao.nn.quantized.LSTM",
       [](const Module& observed, const QConfig& qconfig, const auto& /*output*/) {
         return torchscript::quantized_lstm(observed, qconfig);
       }}};
  return classes;
}

void call_where_there(const Module& module, const std::string& method) {
  if (const auto found = module.find_method(method)) (*found)({});
}

}  // namespace

void register_observed_module(std::string_view name, ObservedModuleFunction from_float) {
  register_class(name, "an observed module", std::move(from_float));
}

void register_quantized_module(std::string_view name, QuantizedModuleFunction from_observed) {
  register_class(name, "a quantized module", std::move(from_observed));
}

namespace torchscript {

Module observed_module(const CustomModule& observed, const Module& float_module, const QConfig& qconfig,
                       std::size_t values, const Where& where) {
  const std::string subject = fmt::format("the observed module '{}'", observed.name.name);
  const Module made = call_of_user(subject, where, [&] {
    if (!observed.definition)
      return function_of(observed.name, own_observed(), "observed module", where)(float_module, qconfig);
    Module module = defined_module(*observed.definition, "observed module");
    copy_attributes(float_module, module);
    call_where_there(module, "from_float");
    return module;
  });
  check_call(made, values, subject + " is", where);
  return made;
}

Module quantized_module(const CustomModule& quantized, const Module& observed, const QConfig& qconfig,
                        const std::optional<QParams>& output, std::size_t values, const Where& where) {
  const std::string subject = fmt::format("the quantized module '{}'", quantized.name.name);
  const Module own = observed.deepcopy();
  const Module made = call_of_user(subject, where, [&] {
    if (!quantized.definition)
      return function_of(quantized.name, own_quantized(), "quantized module", where)(own, qconfig, output);
    Module module = defined_module(*quantized.definition, "quantized module");
    copy_attributes(own, module);
    set_weight_qparams(module, qconfig.weight);
    if (output) set_output_qparams(module, *output);
    call_where_there(module, "from_observed");
    return module;
  });
  check_call(made, values, subject + " is", where);
  return made;
}

}  // namespace torchscript
}  // namespace tsq
