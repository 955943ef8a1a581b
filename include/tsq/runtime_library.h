#pragma once

// Loads libtsq_runtime, which runs the fused programs of a file. Needs LibTorch alone; programs that copy
// tsq/runner.h copy this one too.

#include <ATen/core/dispatch/Dispatcher.h>
#include <caffe2/serialize/inline_container.h>
#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace tsq {

/// The library that runs fused programs.
inline constexpr const char* kRuntimeLibrary = "libtsq_runtime.so";

/// Operators of the library: one calls a program, one limits what calls need. And the class of programs as
/// TorchScript's code has it.
inline constexpr const char* kProgramOperator = "tsq::run";
inline constexpr const char* kMemoryLimitOperator = "tsq::set_memory_limit";
inline constexpr const char* kProgramClass = "torch.classes.tsq.Program";

/// Whether the process has it: linked, or loaded by whomever.
inline bool has_runtime_library() {
  return c10::Dispatcher::singleton().findSchema({kProgramOperator, ""}).has_value();
}

/// Whether a TorchScript file holds fused programs, whichever tool has saved it last: its code names their
/// class. Throws what LibTorch throws for other files.
inline bool holds_fused_programs(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  for (const std::string& record : reader.getAllRecords()) {
    const bool is_code = record.rfind("code/", 0) == 0 && record.rfind(".py") == record.size() - 3;
    if (!is_code) continue;
    const auto [data, size] = reader.getRecord(record);
    const std::string_view code(static_cast<const char*>(data.get()), size);
    if (code.find(kProgramClass) != std::string_view::npos) return true;
  }
  return false;
}

/// Where it is looked for, in this order: beside the program, in the folder lib beside the program's, and
/// where the system's loader looks (LD_LIBRARY_PATH, then the system's folders).
inline std::vector<std::string> places_of_runtime_library() {
  std::vector<std::string> places;
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& place : {folder, folder.parent_path() / "lib", folder.parent_path() / "lib64"}) {
    const auto path = place / kRuntimeLibrary;
    if (!folder.empty() && std::filesystem::exists(path, error)) places.push_back(path.string());
  }
  places.emplace_back(kRuntimeLibrary);
  return places;
}

/// Loads it, unless the process has it, for as long as the process lives. Returns the loader's sentence about
/// why it cannot be loaded; empty: it is there. Threads may call it at once.
inline std::string load_runtime_library() {
  if (has_runtime_library()) return {};
  const std::string path = places_of_runtime_library().front();
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return {};
  const char* reason = dlerror();
  return reason != nullptr ? reason : path + " cannot be loaded";
}

/// Bytes that a call of a fused program may need, for the whole process; 0: 80 % of what is available.
/// Without the library there are no such calls, and this does nothing.
inline void set_memory_limit(std::int64_t bytes) {
  const auto set = c10::Dispatcher::singleton().findSchema({kMemoryLimitOperator, ""});
  if (set) set->typed<void(std::int64_t)>().call(bytes);
}

}  // namespace tsq
