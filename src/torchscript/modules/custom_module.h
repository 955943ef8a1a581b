#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/custom_module.h>
#include <tsq/error.h>
#include <tsq/observer.h>

#include <cstddef>
#include <optional>

/// What becomes of modules of classes that a custom config maps. All are called with `values` tensors. They
/// throw Error(BadConfig) with the place for a class that nobody registered, a function that throws, and a
/// module that cannot be called so.
namespace tsq::torchscript {

torch::jit::Module observed_module(const CustomModule& observed, const torch::jit::Module& float_module,
                                   const QConfig& qconfig, std::size_t values, const Where& where);

/// `observed` stays as it is. `output` is none unless it is quantized statically.
torch::jit::Module quantized_module(const CustomModule& quantized, const torch::jit::Module& observed,
                                    const QConfig& qconfig, const std::optional<QParams>& output,
                                    std::size_t values, const Where& where);

}  // namespace tsq::torchscript
