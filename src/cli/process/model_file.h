#pragma once

#include <ATen/Context.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/data.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/process/session.h"

namespace tsq::cli {

/// A loaded model and the engine that it was loaded for.
struct ModelFile {
  std::string path{};
  torch::jit::Module module;
  at::QEngine engine;
  uint64_t bytes{0};
  std::vector<std::string> devices{};  ///< other than the CPU, that the file was saved for or names
  bool trains{false};                  ///< a module in the file is in training mode
};

/// Loads any TorchScript file, in eval mode, as tsq::load does. Throws Error(BadModel).
ModelFile load_any(const std::string& path);
/// The same for a model that is to be run: refuses one without forward.
ModelFile load_model(const std::string& path);
/// The same for a model of which `method` is to be quantized: refuses what tsq made already. Of methods, only
/// forward is looked for.
ModelFile load_float_model(const std::string& path, const std::string& method);

/// Says on standard error, unless results are not wanted there either, that a file for another device runs on
/// the CPU.
void tell_devices(const ModelFile& model, const Session& session);
void tell_devices(const std::string& path, const std::vector<std::string>& devices, const Session& session);

/// The samples of a file for a method of a model; none where no file was given.
std::vector<Sample> samples_if_given(const std::string& path, const torch::jit::Module& model,
                                     const std::string& method = "forward");

/// Runs one sample without gradients, under the model's own engine. Throws Error(BadData) that names model
/// and sample.
at::IValue run(ModelFile& model, const Sample& sample, std::size_t index);

}  // namespace tsq::cli
