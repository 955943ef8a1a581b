#include "cli/process/model_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>
#include <tsq/error.h>
#include <tsq/files.h>
#include <tsq/train.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/libtorch_error.h"
#include "base/stages.h"
#include "cli/process/loading.h"
#include "cli/process/standard_streams.h"

namespace tsq::cli {

namespace {

/// LibTorch reads the archive's source positions when somebody first asks for one. A damaged record is the
/// file's fault, so it is asked for here and not in the middle of a pass.
void read_source_positions(const torch::jit::Module& model) {
  for (const torch::jit::Module& module : model.modules()) {
    for (const torch::jit::Method& method : module.get_methods()) {
      for (const torch::jit::Node* node : method.graph()->nodes()) {
        const torch::jit::SourceRange range = node->sourceRange();
        if (!range.source()) continue;
        range.source()->findSourceRangeThatGenerated(range);
        break;
      }
    }
  }
}

bool is_in_training(const torch::jit::Module& model) {
  for (const torch::jit::Module& module : model.modules()) {
    if (module.hasattr("training") && module.is_training()) return true;
  }
  return false;
}

}  // namespace

ModelFile load_any(const std::string& path) {
  try {
    const Loading loading(path);
    torch::jit::Module module = tsq::load(path);
    read_source_positions(module);
    const bool trains = is_in_training(module);
    module.eval();
    std::error_code code;
    return {.path = path,
            .module = std::move(module),
            .engine = engine_in_use(),
            .bytes = std::filesystem::file_size(path, code),
            .devices = foreign_devices(path),
            .trains = trains};
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    rethrow_out_of_memory(e);
    throw Error(ErrorCode::BadModel,
                fmt::format("'{}' cannot be loaded as a TorchScript model: {}", path, reason_of(e)),
                "write it with torch.jit.save");
  }
}

ModelFile load_model(const std::string& path) {
  ModelFile model = load_any(path);
  if (!model.module.find_method("forward")) {
    throw Error(ErrorCode::BadModel, fmt::format("model '{}' has no forward method", path),
                "script a module whose class defines forward");
  }
  return model;
}

ModelFile load_float_model(const std::string& path, const std::string& method) {
  ModelFile model = method == "forward" ? load_model(path) : load_any(path);
  nlohmann::json metadata = read_metadata(path);
  if (metadata.is_null()) metadata = training_metadata(model.module);
  if (!metadata.is_object() || !metadata.contains("stage")) return model;
  const StageKind kind =
      kind_of_stage(metadata["stage"].is_string() ? metadata["stage"].get<std::string>() : std::string(),
                    metadata.value("training", false));
  throw Error(
      ErrorCode::BadModel,
      fmt::format("'{}' is not a float model: it is {} of tsq", path,
                  kind.what.empty() ? "a file" : kind.what),
      kind.remedy.empty() ? "give the float model" : fmt::format("{}, or give the float model", kind.remedy));
}

void tell_devices(const std::string& path, const std::vector<std::string>& devices, const Session& session) {
  if (devices.empty() || session.quiet) return;
  print_note(fmt::format("'{}' was saved for {}; it runs on the CPU here", path, fmt::join(devices, ", ")));
}

void tell_devices(const ModelFile& model, const Session& session) {
  tell_devices(model.path, model.devices, session);
}

std::vector<Sample> samples_if_given(const std::string& path, const torch::jit::Module& model,
                                     const std::string& method) {
  return path.empty() ? std::vector<Sample>() : load_samples(path, model, method);
}

at::IValue run(ModelFile& model, const Sample& sample, std::size_t index) {
  const c10::InferenceMode no_gradients;
  try {
    const EngineHold hold(model.engine);
    return model.module.forward(sample);
  } catch (const std::exception& e) {
    throw run_error(fmt::format("model '{}'", model.path), index, e);
  }
}

}  // namespace tsq::cli
