#include "io/libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/library.h>
#include <tsq/runtime_library.h>

#include <filesystem>
#include <string>

namespace tsq {

void load_library(const std::string& path) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular)
    throw Error(ErrorCode::BadConfig, fmt::format("the library '{}' is not a regular file", path),
                "name a shared library");
  // The loader looks for names without a folder in the system's folders alone.
  const std::string file =
      std::filesystem::exists(path, error) ? std::filesystem::absolute(path, error).string() : path;
  if (dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  const char* reason = dlerror();
  throw Error(
      ErrorCode::BadConfig,
      fmt::format("cannot load the library '{}': {}", path, reason != nullptr ? reason : "unknown reason"),
      "name a shared library that is built against this LibTorch");
}

namespace io {

void load_runtime() {
  const std::string reason = load_runtime_library();
  if (reason.empty()) return;
  throw Error(ErrorCode::Unsupported, fmt::format("fused programs need {}: {}", kRuntimeLibrary, reason),
              "link tsq::runtime, install it beside the program or in the folder lib beside that, or load it "
              "first, by tsq::load_library or the command's --library; scripts/setup.sh installs the oneDNN "
              "that it is built with");
}

void load_runtime_for(const std::string& path) {
  if (!has_runtime_library() && holds_fused_programs(path)) load_runtime();
}

}  // namespace io
}  // namespace tsq
