#include "io/libraries.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/library.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace tsq {
namespace {

/// Stays loaded for the process. Empty where it has been loaded, else the loader's sentence.
std::string loaded(const std::string& path) {
  return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr ? std::string() : std::string(dlerror());
}

bool has_runtime() { return c10::Dispatcher::singleton().findSchema({"tsq::make_program", ""}).has_value(); }

}  // namespace

void load_library(const std::string& path) {
  const std::string error = loaded(path);
  if (!error.empty()) {
    throw Error(ErrorCode::BadConfig, fmt::format("cannot load the library '{}': {}", path, error),
                "name a shared library that is built against this LibTorch");
  }
}

namespace io {

void load_runtime() {
  if (has_runtime()) return;
  std::error_code no_program;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", no_program).parent_path();
  for (const auto& place : {folder, folder.parent_path() / "lib", folder.parent_path() / "lib64"}) {
    const auto path = place / kRuntimeLibrary;
    if (!no_program && std::filesystem::exists(path)) return load_library(path.string());
  }
  const std::string error = loaded(std::string(kRuntimeLibrary));
  if (!error.empty()) {
    throw Error(ErrorCode::Unsupported,
                fmt::format("fused programs need {}, which is not found: {}", kRuntimeLibrary, error),
                "build it (scripts/setup.sh installs oneDNN), install it beside the program, or name it with "
                "--library");
  }
}

void load_libraries_of(const nlohmann::json& metadata) {
  if (!metadata.is_object() || !metadata.contains("libraries")) return;
  const auto& names = metadata.at("libraries");
  if (std::ranges::find(names, kRuntimeLibrary) != names.end()) load_runtime();
}

}  // namespace io
}  // namespace tsq
