#pragma once

#include <tsq/observer.h>
#include <tsq/qconfig.h>

#include <functional>
#include <optional>
#include <string_view>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// Makes the observed module of a float one, which it must not change: from_float.
using ObservedModuleFunction =
    std::function<torch::jit::Module(const torch::jit::Module& float_module, const QConfig& qconfig)>;
/// Makes the quantized module of a calibrated one: from_observed. `output` is what the observer after it has
/// found; none unless it is quantized statically. A static one is called with a quantized tensor, and
/// returns one.
using QuantizedModuleFunction = std::function<torch::jit::Module(
    const torch::jit::Module& observed, const QConfig& qconfig, const std::optional<QParams>& output)>;

/// Makes `name` ("my_package.Observed") a class that PrepareCustomConfig::set_float_to_observed_mapping or
/// ConvertCustomConfig::set_observed_to_quantized_mapping may name. Throws Error(BadConfig) for a name of
/// PyTorch's; a name that is registered again gets the new function. Whoever loads a prepared file of such a
/// config must have registered the name before.
void register_observed_module(std::string_view name, ObservedModuleFunction from_float);
void register_quantized_module(std::string_view name, QuantizedModuleFunction from_observed);

}  // namespace tsq
