// Stages as files: the float model and the configuration, from which prepare makes the stage again, and the
// observers with what they have seen.

#include "pipeline/stage_file.h"

#include <fmt/format.h>
#include <torch/version.h>
#include <tsq/error.h>

#include <algorithm>

#include "backends/kernels/engine.h"
#include "base/known_engines.h"
#include "io/archive.h"

namespace tsq {
namespace detail {
namespace {

/// Types have QConfigs, and every one of them leaves activations in float.
bool is_weight_only(const QConfigMapping& mapping) {
  std::vector<QConfig> given;
  for (const auto& [type, qconfig] : mapping.object_type_qconfigs()) {
    if (qconfig) given.push_back(*qconfig);
  }
  return !mapping.global_qconfig() && !given.empty() &&
         std::all_of(given.begin(), given.end(), [](const QConfig& qconfig) {
           return resolve(qconfig.activation).dtype == c10::ScalarType::Float;
         });
}

/// A quantized file says by name what tsq's own mapping it was made with: the text is longer than many a
/// model.
nlohmann::json mapping_of_result(const Stage& stage) {
  const QConfigMapping& mapping = stage.mapping;
  if (mapping == best_dynamic_qconfig_mapping()) return "best_dynamic_qconfig_mapping()";
  for (const bool is_own : {true, false}) {
    for (const std::string_view backend : known_engines()) {
      if ((backend == stage.backend.name()) != is_own) continue;
      if (mapping == default_qconfig_mapping(backend))
        return fmt::format("default_qconfig_mapping('{}')", backend);
      if (mapping == best_qconfig_mapping(backend)) return fmt::format("best_qconfig_mapping('{}')", backend);
    }
  }
  return mapping.to_dict();
}

const char* mode_of(const QConfigMapping& mapping) {
  const MaybeQConfig& global = mapping.global_qconfig();
  if (is_weight_only(mapping)) return "weight_only";
  return global && resolve(global->activation).is_dynamic ? "dynamic" : "static";
}

}  // namespace

nlohmann::json metadata_of(const Stage& stage, const char* name) {
  const bool is_result = std::string_view(name) == "quantized";
  nlohmann::json metadata = {
      {"tsq", version()},
      {"torch", TORCH_VERSION},
      {"stage", name},
      {"mode", mode_of(stage.mapping)},
      {"recipe", to_string(stage.options.recipe)},
      {"backend", stage.backend.name()},
      {"engine", engine_name_of(stage.backend)},
      {"qconfig_mapping", is_result ? mapping_of_result(stage) : stage.mapping.to_dict()}};
  if (!stage.kept_float.empty()) metadata["kept_float"] = stage.kept_float;
  return metadata;
}

nlohmann::json continuation_of(const Stage& stage, const char* name) {
  nlohmann::json json = metadata_of(stage, name);
  if (stage.training) json["training"] = true;
  json["backend_config"] = stage.backend.to_dict();
  json["prepare_custom_config"] = stage.custom.to_dict();
  json["target_cpu"] = to_string(stage.options.target_cpu);
  if (stage.options.cross_layer_margin) json["cross_layer_margin"] = *stage.options.cross_layer_margin;
  json["weight_rounding"] = to_string(stage.options.weight_rounding);
  if (!stage.equalization.empty()) json["equalization"] = stage.equalization.to_dict();
  if (stage.options.smooth_quant) json["smooth_quant"] = *stage.options.smooth_quant;
  json["preserved_attributes"] = stage.preserved_attributes;
  if (!stage.seen.empty()) json["calibration"] = stage.seen;
  if (stage.convert_mapping) json["convert_qconfig_mapping"] = stage.convert_mapping->to_dict();
  return json;
}

}  // namespace detail

namespace {

using detail::Stage;
using torch::jit::Module;

constexpr const char* kContinuation = "tsq_continuation";
constexpr const char* kFloatModel = "float_model";
constexpr const char* kMeanErrors = "mean_errors";
constexpr const char* kObserverPrefix = "observer_";

/// What a saved stage needs to go on in another process: the float model and what was found by calibration.
Module continuation_module(const Stage& stage) {
  Module module("__torch__.tsq.Continuation", std::make_shared<torch::jit::CompilationUnit>());
  module.register_module(kFloatModel, stage.float_model);
  if (stage.mean_errors) {
    c10::Dict<std::string, at::Tensor> errors;
    for (const auto& [node, error] : *stage.mean_errors) errors.insert(node, error);
    module.register_attribute(kMeanErrors,
                              c10::DictType::create(c10::StringType::get(), c10::TensorType::get()), errors);
  }
  return module;
}

/// The stage's module with a continuation in a tuple, where neither state_dict() nor parameters() sees it:
/// the keys and tensors of the user's model are not there twice.
Module with_continuation(const Stage& stage, const Module& continuation) {
  Module module = detail::module_of(stage, stage.gm, stage.observers);
  module.register_attribute(kContinuation, c10::TupleType::create({continuation.type()}),
                            c10::ivalue::Tuple::create(continuation._ivalue()));
  return module;
}

Module continuation_in(const Module& module) {
  return module.attr(kContinuation).toTupleRef().elements().at(0).toModule();
}

std::optional<passes::MeanErrors> mean_errors_in(const Module& continuation) {
  if (!continuation.hasattr(kMeanErrors)) return std::nullopt;
  passes::MeanErrors errors;
  for (const auto& entry : continuation.attr(kMeanErrors).toGenericDict())
    errors.emplace(entry.key().toStringRef(), entry.value().toTensor());
  return errors;
}

struct Loaded {
  Module module;
  nlohmann::json json;
};

Loaded as_stage(const std::string& path, Module module, const char* name) {
  Loaded loaded{.module = std::move(module), .json = read_metadata(path)};
  if (loaded.json.is_null() || loaded.json.value("stage", "") != name) {
    throw Error(ErrorCode::BadModel, fmt::format("'{}' is not a {} model of tsq", path, name),
                fmt::format("give the file that tsq wrote as its {} model", name));
  }
  return loaded;
}

std::optional<double> number_in(const nlohmann::json& json, const char* key) {
  return json.contains(key) ? std::optional(json.at(key).get<double>()) : std::nullopt;
}

RecipeOptions recipe_options_in(const nlohmann::json& json) {
  return {.recipe = recipe_from_name(json.value("recipe", "fx")),
          .target_cpu = target_cpu_from_name(json.value("target_cpu", "native")),
          .smooth_quant = number_in(json, "smooth_quant"),
          .cross_layer_margin = number_in(json, "cross_layer_margin"),
          .weight_rounding = weight_rounding_from_name(json.value("weight_rounding", "nearest"))};
}

/// The stage of a model that trains, on `model`, whose parameters are its own.
Prepared train_again(const Module& model, const nlohmann::json& json) {
  const at::NoGradGuard no_grad;
  const BackendConfig backend = BackendConfig::from_dict(json.at("backend_config"));
  const EngineGuard engine(backend);
  return Prepared(detail::training_stage(
      model, QConfigMapping::from_dict(json.at("qconfig_mapping")), backend,
      PrepareCustomConfig::from_dict(json.at("prepare_custom_config")), recipe_options_in(json)));
}

/// Python's torch.jit.save keeps the module alone: what it was prepared with is in there.
Prepared load_trained(const Module& module) {
  const Prepared prepared = train_again(detail::trained_float_model(module),
                                        nlohmann::json::parse(detail::training_configuration(module)));
  detail::take_trained_observers(*prepared.stage(), module);
  return prepared;
}

Prepared prepare_again(const Loaded& loaded) {
  const Module float_model = continuation_in(loaded.module).attr(kFloatModel).toModule();
  if (loaded.json.value("training", false)) return train_again(float_model, loaded.json);
  return prepare(float_model, QConfigMapping::from_dict(loaded.json.at("qconfig_mapping")),
                 BackendConfig::from_dict(loaded.json.at("backend_config")),
                 PrepareCustomConfig::from_dict(loaded.json.at("prepare_custom_config")),
                 EqualizationMapping::from_dict(loaded.json.value("equalization", nlohmann::json::object())),
                 recipe_options_in(loaded.json));
}

/// The sub-module's place in an emitted module.
std::optional<Module> standalone_in(const Module& emitted, const Stage& child, const Module& from) {
  if (emitted._ivalue() == child.module._ivalue()) return from;
  for (const auto& inner : emitted.named_children()) {
    if (!from.hasattr(inner.name)) continue;
    if (auto found = standalone_in(inner.value, child, from.attr(inner.name).toModule())) return found;
  }
  return std::nullopt;
}

/// The calibrated observers of a loaded module in place of the fresh ones.
void take_observers(Stage& stage, const Module& from) {
  for (std::size_t i = 0; i < stage.observers.size(); ++i) {
    const std::string& name = stage.gm.observers[i].name;
    if (from.hasattr(name)) stage.observers[i] = from.attr(name).toModule();
  }
  for (const auto& [path, child] : stage.standalone) {
    take_observers(*child, standalone_in(stage.module, *child, from).value_or(child->module));
    detail::set_standalone_modules(stage.gm, path, child->module);
  }
  stage.module = detail::module_of(stage, stage.gm, stage.observers);
}

/// A reference's continuation keeps the calibrated observers under these names.
void register_observers(const Stage& stage, Module& module, const std::string& prefix) {
  for (std::size_t i = 0; i < stage.observers.size(); ++i)
    module.register_module(prefix + stage.gm.observers[i].name, stage.observers[i]);
  std::size_t index = 0;
  for (const auto& [path, child] : stage.standalone)
    register_observers(*child, module, fmt::format("{}{}_", prefix, index++));
  if (!stage.training) return;
  for (const auto& [path, fake_quantize] : stage.training->weight_fake_quants)
    module.register_module(fmt::format("{}weight_{}", prefix, index++), fake_quantize);
}

void find_observers(Stage& stage, const Module& module, const std::string& prefix) {
  for (std::size_t i = 0; i < stage.observers.size(); ++i)
    stage.observers[i] = module.attr(prefix + stage.gm.observers[i].name).toModule();
  std::size_t index = 0;
  for (const auto& [path, child] : stage.standalone)
    find_observers(*child, module, fmt::format("{}{}_", prefix, index++));
  if (!stage.training) return;
  for (auto& [path, fake_quantize] : stage.training->weight_fake_quants)
    fake_quantize = module.attr(fmt::format("{}weight_{}", prefix, index++)).toModule();
}

}  // namespace

const Module& Prepared::module() const& { return stage_->module; }
Module Prepared::module() && { return stage_->module; }
const Report& Prepared::report() const& { return stage_->report; }
Report Prepared::report() && { return stage_->report; }
void Prepared::save(const std::string& path, const ExtraFiles& extra_files) const {
  io::save_archive(
      stage_->training ? stage_->module : with_continuation(*stage_, continuation_module(*stage_)),
      detail::continuation_of(*stage_, "prepared"), path, extra_files);
}

Prepared Prepared::load(const std::string& path) {
  Module module = tsq::load(path);
  if (detail::is_training_module(module)) return load_trained(module);
  const Loaded loaded = as_stage(path, std::move(module), "prepared");
  Prepared prepared = prepare_again(loaded);
  take_observers(*prepared.stage(), loaded.module);
  prepared.stage()->mean_errors = mean_errors_in(continuation_in(loaded.module));
  prepared.stage()->seen = loaded.json.value("calibration", std::map<std::string, std::size_t>());
  return prepared;
}

const Module& Reference::module() const& { return stage_->module; }
Module Reference::module() && { return stage_->module; }
const Report& Reference::report() const& { return stage_->report; }
Report Reference::report() && { return stage_->report; }

void Reference::save(const std::string& path, const ExtraFiles& extra_files) const {
  Module continuation = continuation_module(*stage_);
  register_observers(*stage_, continuation, kObserverPrefix);
  io::save_archive(with_continuation(*stage_, continuation), detail::continuation_of(*stage_, "reference"),
                   path, extra_files);
}

Reference Reference::load(const std::string& path) {
  const Loaded loaded = as_stage(path, tsq::load(path), "reference");
  const Prepared prepared = prepare_again(loaded);
  Stage& stage = *prepared.stage();
  const Module continuation = continuation_in(loaded.module);
  find_observers(stage, continuation, kObserverPrefix);
  stage.mean_errors = mean_errors_in(continuation);
  stage.seen = loaded.json.value("calibration", std::map<std::string, std::size_t>());
  stage.kept_float = loaded.json.value("kept_float", std::map<std::string, std::string>());
  const nlohmann::json mapping = loaded.json.value("convert_qconfig_mapping", nlohmann::json());
  return convert_to_reference(
      prepared, stage.backend,
      ConvertCustomConfig()
          .set_preserved_attributes(loaded.json.value("preserved_attributes", std::vector<std::string>()))
          .set_allow_uncalibrated(true),
      mapping.is_null() ? std::nullopt : std::optional(QConfigMapping::from_dict(mapping)));
}

}  // namespace tsq
