#pragma once

#include <tsq/plan.h>

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// Files that users store beside a model in its archive (torch::jit::ExtraFilesMap): contents by name.
using ExtraFiles = std::map<std::string, std::string>;

/// Writes a module whole or not at all (temporary file beside `path`, then rename). Throws Error(BadOutput).
void save(const torch::jit::Module& module, const std::string& path, const ExtraFiles& extra_files = {});

/// Loads a TorchScript file. A quantized file of tsq's is loaded under a hold of the engine that it needs,
/// and afterwards that engine is the process's, so that `module.forward` runs with it. Tensors that were
/// saved on another device are loaded to the CPU, and devices in the code are replaced by the CPU. Throws
/// Error(BadModel) for any other file, with one sentence that says what it is.
/// Threads may load at once. But the process has one engine, and after loads of files for different engines
/// it is that of the last one: who calls such modules takes a hold of each one's engine around the call
/// (EngineHold of tsq/engine_lock.h), or loads them with Runner, which does so.
torch::jit::Module load(const std::string& path);

/// The devices other than the CPU that a TorchScript file was saved for or that its code names, as it spells
/// them: "cuda:0". Throws as load.
std::vector<std::string> foreign_devices(const std::string& path);

/// The metadata that tsq wrote into a file: {"tsq": version, "torch": version, "stage", "backend", "engine",
/// "recipe", "mode", "qconfig_mapping", …}; null when tsq did not write the file. In a quantized file, a
/// mapping for which tsq has a function is written as the call of that function,
/// "default_qconfig_mapping('x86')".
nlohmann::json read_metadata(const std::string& path);

/// The plan that a quantized file was made by; none where tsq did not write the file, or gave the float model
/// back. Throws Error(BadModel).
std::optional<Plan> read_plan(const std::string& path);

/// The extra files of an archive, without those of tsq. Throws Error(BadModel).
ExtraFiles read_extra_files(const std::string& path);

}  // namespace tsq
