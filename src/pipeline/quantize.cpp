// The public verbs: which passes run, in which order, on which stage.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/version.h>
#include <tsq/error.h>
#include <tsq/quantize.h>

#include "io/archive.h"
#include "ir/emit.h"
#include "observers/observer_module.h"
#include "passes/passes.h"
#include "pipeline/engine.h"
#include "pipeline/stage.h"

namespace tsq {
namespace {

using detail::Stage;
using torch::jit::Module;

/// Runs one pass; its name goes in front of an error.
template <typename Pass>
auto in_pass(const char* name, const Pass& pass) {
  try {
    return pass();
  } catch (const Error& error) {
    throw error.in_pass(name);
  }
}

/// capture, normalise, fuse: the float graph that patterns are matched on.
ir::GraphModule fused_graph(const Module& model, const BackendConfig& backend,
                            const PrepareCustomConfig& custom) {
  ir::GraphModule gm = in_pass("capture", [&] { return passes::capture(model, custom); });
  in_pass("normalise", [&] { passes::normalise(gm); });
  in_pass("fuse", [&] { passes::fuse(gm, backend); });
  return gm;
}

const char* mode_of(const QConfigMapping& mapping) {
  const MaybeQConfig& global = mapping.global_qconfig();
  return global && resolve(global->activation).is_dynamic ? "dynamic" : "static";
}

nlohmann::json metadata_of(const Stage& stage, const char* name) {
  return {{"tsq", version()},
          {"torch", TORCH_VERSION},
          {"stage", name},
          {"mode", mode_of(stage.mapping)},
          {"recipe", "fx"},
          {"backend", stage.backend.name()},
          {"engine", engine_name_of(stage.backend)},
          {"qconfig_mapping", stage.mapping.to_dict()}};
}

/// What a saved stage needs to go on in another process: the float model and the configuration. Observers
/// keep their state in the module.
Module continuable(const Stage& stage) {
  Module module = ir::emit(stage.gm, stage.observers);
  module.register_module("float_model", stage.float_model);
  return module;
}

nlohmann::json continuation_of(const Stage& stage, const char* name) {
  nlohmann::json json = metadata_of(stage, name);
  json["backend_config"] = stage.backend.to_dict();
  json["prepare_custom_config"] = stage.custom.to_dict();
  return json;
}

struct Loaded {
  Module module;
  nlohmann::json json;
};

Loaded load_stage(const std::string& path, const char* name) {
  Loaded loaded{.module = load(path), .json = read_metadata(path)};
  if (loaded.json.is_null() || loaded.json.value("stage", "") != name) {
    throw Error(ErrorCode::BadModel, fmt::format("'{}' is not a {} model of tsq", path, name),
                fmt::format("give the file that tsq wrote as its {} model", name));
  }
  return loaded;
}

Prepared prepare_again(const Loaded& loaded) {
  return prepare(loaded.module.attr("float_model").toModule(),
                 QConfigMapping::from_dict(loaded.json.at("qconfig_mapping")),
                 BackendConfig::from_dict(loaded.json.at("backend_config")),
                 PrepareCustomConfig::from_dict(loaded.json.at("prepare_custom_config")));
}

/// The calibrated observers of a loaded module in place of the fresh ones.
void take_observers(Stage& stage, const Module& from) {
  for (std::size_t i = 0; i < stage.observers.size(); ++i) {
    const std::string& name = stage.gm.observers[i].name;
    if (from.hasattr(name)) stage.observers[i] = from.attr(name).toModule();
  }
  stage.module = ir::emit(stage.gm, stage.observers);
}

void check_tensor(const at::Tensor& tensor, const std::string& place) {
  if (tensor.numel() == 0)
    throw Error(ErrorCode::BadData, place + " is an empty tensor", "leave it out of the calibration data");
  if (!tensor.is_floating_point()) return;
  if (at::isfinite(tensor).all().item<bool>()) return;
  throw Error(ErrorCode::BadData, place + " holds NaN or infinite values",
              "clean the calibration data: ranges come from it");
}

/// forward takes `self` and the sample's values.
void check_sample(const c10::FunctionSchema& schema, const Sample& sample, std::size_t index) {
  std::size_t required = 0;
  for (const auto& argument : schema.arguments()) required += argument.default_value() ? 0 : 1;
  const std::size_t allowed = schema.arguments().size() - 1;
  if (sample.size() + 1 < required || sample.size() > allowed) {
    throw Error(ErrorCode::BadData,
                fmt::format("sample {} has {} value{}, the model's forward takes {}", index, sample.size(),
                            sample.size() == 1 ? "" : "s",
                            required == allowed + 1 ? std::to_string(allowed)
                                                    : fmt::format("{} to {}", required - 1, allowed)),
                "give each sample as the tuple of forward's arguments");
  }
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const auto& argument = schema.arguments()[i + 1];
    const std::string place = fmt::format("sample {}, argument '{}'", index, argument.name());
    if (!sample[i].type()->isSubtypeOf(*argument.type())) {
      throw Error(ErrorCode::BadData,
                  fmt::format("{} is a {}, the model's forward takes {}", place, sample[i].type()->str(),
                              argument.type()->str()),
                  "give each sample as the tuple of forward's arguments");
    }
    if (sample[i].isTensor()) check_tensor(sample[i].toTensor(), place);
  }
}

/// Observers are independent: their searches for a range run side by side.
std::vector<passes::ObserverResult> find_qparams(const Stage& stage) {
  std::vector<passes::ObserverResult> results(stage.observers.size());
  at::parallel_for(0, static_cast<int64_t>(results.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto index = static_cast<std::size_t>(i);
      results[index] = passes::observer_result(stage.gm.observers[index].spec, stage.observers[index]);
    }
  });
  return results;
}

}  // namespace

const Module& Prepared::module() const { return stage_->module; }
const Report& Prepared::report() const { return stage_->report; }
void Prepared::save(const std::string& path) const {
  io::save_archive(continuable(*stage_), continuation_of(*stage_, "prepared"), path);
}

Prepared Prepared::load(const std::string& path) {
  const Loaded loaded = load_stage(path, "prepared");
  Prepared prepared = prepare_again(loaded);
  take_observers(*prepared.stage(), loaded.module);
  return prepared;
}

const Module& Reference::module() const { return stage_->module; }
const Report& Reference::report() const { return stage_->report; }

void Reference::save(const std::string& path) const {
  Module module = continuable(*stage_);
  for (std::size_t i = 0; i < stage_->observers.size(); ++i)
    module.register_module("tsq_" + stage_->gm.observers[i].name, stage_->observers[i]);
  io::save_archive(module, continuation_of(*stage_, "reference"), path);
}

Reference Reference::load(const std::string& path) {
  const Loaded loaded = load_stage(path, "reference");
  const Prepared prepared = prepare_again(loaded);
  Stage& stage = *prepared.stage();
  for (std::size_t i = 0; i < stage.observers.size(); ++i)
    stage.observers[i] = loaded.module.attr("tsq_" + stage.gm.observers[i].name).toModule();
  return convert_to_reference(prepared, stage.backend);
}

Prepared prepare(const Module& model, const QConfigMapping& mapping, const BackendConfig& backend,
                 const PrepareCustomConfig& custom) {
  const at::NoGradGuard no_grad;
  auto stage = std::make_shared<Stage>();
  stage->float_model = model;
  stage->mapping = mapping;
  stage->backend = backend;
  stage->custom = custom;
  stage->gm = fused_graph(model, backend, custom);
  const passes::MatchTable table =
      in_pass("match", [&] { return passes::match(stage->gm, mapping, backend); });
  in_pass("observe", [&] { passes::observe(stage->gm, table, backend, custom, stage->report); });
  for (const ir::ObserverEntry& entry : stage->gm.observers)
    stage->observers.push_back(make_observer(entry.spec));
  stage->module = ir::emit(stage->gm, stage->observers);
  return Prepared(std::move(stage));
}

void calibrate(Prepared& prepared, std::span<const Sample> samples, const Progress& progress) {
  if (samples.empty())
    throw Error(ErrorCode::BadData, "there are no calibration samples", "give at least one");
  const at::NoGradGuard no_grad;
  // Specialising for the shapes of a few batches costs more than it brings.
  const torch::jit::GraphOptimizerEnabledGuard no_specialisation(false);
  Module module = prepared.module();
  const auto method = module.get_method("forward");
  for (std::size_t i = 0; i < samples.size(); ++i) {
    check_sample(method.function().getSchema(), samples[i], i);
    try {
      method(samples[i]);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(ErrorCode::BadData,
                  fmt::format("the model cannot run on sample {}: {}", i, io::one_line(error.what())),
                  "check shape and dtype of the sample against what the model takes");
    }
    if (progress) progress(i + 1, samples.size());
  }
}

Reference convert_to_reference(const Prepared& prepared, const BackendConfig& backend) {
  const at::NoGradGuard no_grad;
  const EngineGuard engine(backend);
  auto stage = std::make_shared<Stage>(*prepared.stage());
  stage->gm = prepared.stage()->gm.copy();
  stage->backend = backend;
  const auto results = in_pass("convert", [&] { return find_qparams(*prepared.stage()); });
  in_pass("convert", [&] { passes::convert(stage->gm, results, backend, stage->custom); });
  stage->report.unobserved_layers.clear();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool in_use = passes::uses_observer(prepared.stage()->gm, i);
    if (in_use && !results[i].saw_data)
      stage->report.unobserved_layers.push_back(stage->gm.observers[i].layer);
  }
  stage->module = ir::emit(stage->gm);
  return Reference(std::move(stage));
}

Module lower(const Reference& reference, const BackendConfig& backend) {
  return lower(reference, backend, nullptr);
}

Module lower(const Reference& reference, const BackendConfig& backend, Report* report) {
  const at::NoGradGuard no_grad;
  const EngineGuard engine(backend, /*must_have_kernels=*/true);
  const Stage& stage = *reference.stage();
  ir::GraphModule gm = stage.gm.copy();
  Report lowered = stage.report;
  in_pass("lower", [&] { passes::lower(gm, lowered); });
  Module module = ir::emit(gm);
  module.register_attribute(io::kMetadataAttribute, c10::StringType::get(),
                            metadata_of(stage, "quantized").dump());
  if (report != nullptr) *report = std::move(lowered);
  return module;
}

Module convert(const Prepared& prepared, const BackendConfig& backend) {
  return lower(convert_to_reference(prepared, backend), backend);
}

Module fuse(const Module& model, const BackendConfig& backend) {
  const at::NoGradGuard no_grad;
  return ir::emit(fused_graph(model, backend, {}));
}

std::string version() { return TSQ_VERSION; }

}  // namespace tsq
