#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/custom_module.h>

#include <string_view>

namespace tsq::torchscript {

/// The module that a configuration defines, which shares nothing with another one; `kind` is its in messages:
/// "reference module". Throws Error(BadConfig) for what cannot be loaded or does not compile.
torch::jit::Module defined_module(const ModuleDefinition& definition, std::string_view kind);

}  // namespace tsq::torchscript
