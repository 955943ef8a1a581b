#include "torchscript/modules/defined_module.h"

#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>
#include <tsq/error.h>

#include <sstream>
#include <string>

#include "base/libtorch_error.h"
#include "base/module_source.h"

namespace tsq::torchscript {
namespace {

using torch::jit::Module;

Module loaded_module(const ModuleDefinition& definition) {
  if (!definition.file.empty()) return torch::jit::load(definition.file, at::kCPU);
  std::istringstream archive(definition.archive);
  return torch::jit::load(archive, at::kCPU);
}

}  // namespace

Module defined_module(const ModuleDefinition& definition, std::string_view kind) {
  if (!definition.source.empty()) return module_of_source("__torch__.json.", definition.source, kind);
  try {
    return loaded_module(definition);
  } catch (const c10::Error& error) {
    rethrow_out_of_memory(error);
    const std::string name = definition.file.empty() ? "" : fmt::format(" '{}'", definition.file);
    throw Error(ErrorCode::BadConfig,
                fmt::format("the {}{} cannot be loaded: {}", kind, name, reason_of(error)),
                "save it by torch.jit.save; a relative path is one from the configuration's file");
  }
}

}  // namespace tsq::torchscript
