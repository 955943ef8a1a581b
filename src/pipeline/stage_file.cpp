// Stages as files: the float model and the configuration, from which prepare makes the stage again, and the
// observers with what they have seen.

#include "pipeline/stage_file.h"

#include <c10/util/hash.h>
#include <fmt/format.h>
#include <torch/version.h>
#include <tsq/error.h>
#include <tsq/machine_profile.h>
#include <tsq/parse_json.h>
#include <tsq/train.h>

#include <algorithm>
#include <set>

#include "backends/kernels/engine.h"
#include "backends/kernels/processor_faults.h"
#include "base/json_reason.h"
#include "base/known_engines.h"
#include "base/stages.h"
#include "config/module_definition.h"
#include "io/archive.h"
#include "ir/analysis.h"
#include "observers/observer_module.h"
#include "pipeline/kept_facts.h"
#include "pipeline/module_fingerprint.h"
#include "pipeline/planner.h"
#include "pipeline/reference_training.h"
#include "pipeline/run.h"
#include "pipeline/training.h"

namespace tsq {
namespace detail {
namespace {

/// Of prepared and reference files: raised when older ones cannot be read any more.
constexpr int kLayout = 5;

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
      if ((backend == stage.backend.engine()) != is_own) continue;
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
      {"engine", stage.backend.engine()},
      {"target", to_string(stage.options.target)},
      {"processor_faults", processor_faults_of(stage).to_json()},
      {"qconfig_mapping", is_result ? mapping_of_result(stage) : stage.mapping.to_dict()}};
  if (!is_result && !stage.kept_float.empty()) metadata["kept_float"] = stage.kept_float;
  return metadata;
}

nlohmann::json continuation_of(const Stage& stage, const char* name) {
  nlohmann::json json = metadata_of(stage, name);
  json.update({{"layout", kLayout},
               {"backend_config", with_archives(stage.backend.to_dict())},
               {"prepare_custom_config", with_archives(stage.custom.to_dict())},
               {"target_cpu", to_string(stage.options.target_cpu)},
               {"weight_rounding", to_string(stage.options.weight_rounding)},
               {"effort", to_string(stage.options.effort)},
               {"preserved_attributes", stage.preserved_attributes}});
  if (stage.options.machine) json["machine"] = stage.options.machine->to_dict();
  if (stage.options.python_source) json["python_source"] = true;
  if (stage.trains) json["training"] = true;
  if (stage.options.decibel_price) json["decibel_price"] = *stage.options.decibel_price;
  if (stage.options.cross_layer_margin) json["cross_layer_margin"] = *stage.options.cross_layer_margin;
  if (!stage.equalization.empty()) json["equalization"] = stage.equalization.to_dict();
  if (stage.options.smooth_quant) json["smooth_quant"] = *stage.options.smooth_quant;
  if (!stage.seen.empty()) json["calibration"] = stage.seen;
  if (const nlohmann::json custom = stage.convert_custom.to_dict(); !custom.empty())
    json["convert_custom_config"] = with_archives(custom);
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
constexpr const char* kNoise = "noise";
constexpr const char* kInputFactors = "input_factors";
constexpr const char* kFingerprint = "fingerprint";
constexpr const char* kObserverNames = "observer_names";
constexpr const char* kObserverPrefix = "observer_";
constexpr const char* kTrained = "trained_parameters";
constexpr const char* kContent = "content";
constexpr const char* kRounding = "learned_rounding";
constexpr const char* kProducts = "products";
constexpr const char* kFacts = "facts";
constexpr const char* kPlan = "plan";

/// A hash of a continuation but for the numbers of samples: what the observers of a file belong to.
std::string fingerprint_of(nlohmann::json continuation) {
  continuation.erase("calibration");  // counts what the observers have seen
  return c10::sha1(continuation.dump()).str();
}

/// The names of observers. A key is what the observer sees and the observer's index, in the order of the
/// graph, among those of that name.
std::map<std::string, std::string> names_by_value(const ir::Model& model) {
  std::map<std::string, std::string> names;
  std::map<std::string, int> of_name;
  std::set<std::size_t> named;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_observer(node) || !named.insert(ir::observer_index(node)).second) continue;
    const std::string name = detail::name_of_value(model, ir::before_observers(node->input(0)));
    names.emplace(fmt::format("{}#{}", name, of_name[name]++), ir::observer_of(model, node).name);
  }
  return names;
}

template <typename Value>
c10::Dict<std::string, Value> as_dict(const std::map<std::string, Value>& entries) {
  c10::Dict<std::string, Value> dict;
  for (const auto& [key, value] : entries) dict.insert(key, value);
  return dict;
}

template <typename Value>
std::map<std::string, Value> as_map(const c10::IValue& dict) {
  std::map<std::string, Value> entries;
  for (const auto& entry : dict.toGenericDict())
    entries.emplace(entry.key().toStringRef(), entry.value().to<Value>());
  return entries;
}

/// What a saved stage needs to go on in another process: the float model and what was found by calibration.
Module continuation_module(const Stage& stage, const nlohmann::json& configuration,
                           const std::shared_ptr<const Plan>& plan) {
  Module module("__torch__.tsq.Continuation", std::make_shared<torch::jit::CompilationUnit>());
  module.register_module(kFloatModel, stage.float_model);
  module.register_attribute(kFingerprint, c10::StringType::get(), fingerprint_of(configuration));
  module.register_attribute(kObserverNames,
                            c10::DictType::create(c10::StringType::get(), c10::StringType::get()),
                            as_dict(names_by_value(detail::observed_model(stage))));
  module.register_attribute(kFacts, c10::StringType::get(),
                            detail::text_of_facts(detail::observed_model(stage)));
  if (const auto noise = detail::known_noise(stage); noise != nullptr)
    module.register_attribute(kNoise, c10::StringType::get(), noise->to_dict().dump());
  if (plan != nullptr) module.register_attribute(kPlan, c10::StringType::get(), plan->to_dict().dump());
  module.register_attribute(kMeanErrors,
                            c10::DictType::create(c10::StringType::get(), c10::TensorType::get()),
                            as_dict(stage.model.mean_errors));
  module.register_attribute(kInputFactors,
                            c10::DictType::create(c10::StringType::get(), c10::TensorType::get()),
                            as_dict(stage.model.input_factors));
  return module;
}

/// A stage's module with a continuation in a tuple, where neither state_dict() nor parameters() sees it:
/// the keys and tensors of the user's model are not there twice.
Module with_continuation(Module module, const Module& continuation) {
  module.register_attribute(kContinuation, c10::TupleType::create({continuation.type()}),
                            c10::ivalue::Tuple::create(continuation._ivalue()));
  return module;
}

/// What a file holds, to be compared with it when it is loaded: the module, the float model, and what else is
/// known of it.
std::string content_of(const Module& module, const Module& continuation, bool parameters_only) {
  return detail::fingerprint_of_loaded(module, kContinuation, parameters_only) +
         detail::fingerprint_of_loaded(continuation.attr(kFloatModel).toModule(), "") +
         detail::fingerprint_of_loaded(continuation, kContent);
}

/// `module` has the continuation.
void set_content(Module& continuation, const Module& module, bool parameters_only) {
  const Module loaded = detail::as_loaded(module);
  const Module loaded_continuation = loaded.attr(kContinuation).toTupleRef().elements().at(0).toModule();
  continuation.register_attribute(kContent, c10::StringType::get(),
                                  content_of(loaded, loaded_continuation, parameters_only));
}

/// How a file that tsq wrote differs from it, where its continuation knows of nothing.
void check_content(const std::string& path, const Module& module, const Module& continuation,
                   bool parameters_only) {
  const std::string content = content_of(module, continuation, parameters_only);
  if (continuation.attr(kContent).toStringRef() == content) return;
  throw Error(
      ErrorCode::BadModel,
      fmt::format("'{}' was changed after tsq wrote it: its code or its {} are not those that tsq goes "
                  "on from",
                  path, parameters_only ? "weights" : "weights, scales and zero points"),
      parameters_only ? "change the float model, and prepare and calibrate it again"
                      : "give the file that tsq wrote; weights that are to change train, after 'tsq "
                        "prepare --qat' of it");
}

Error changed_file(const std::string& path, const char* how) {
  return Error(ErrorCode::BadModel, fmt::format("'{}' {}", path, how),
               "prepare and calibrate the float model again");
}

/// A stage as a file has it.
struct Loaded {
  Module module;
  Module continuation{};
  nlohmann::json json{};
};

/// A file of another stage than the one called `name`, or of none.
Error other_stage(const std::string& path, const Module& module, std::string_view name) {
  std::string text = fmt::format("'{}' is not a {} model of tsq", path, name);
  nlohmann::json metadata = read_metadata(path);
  if (metadata.is_null()) metadata = training_metadata(module);
  if (metadata.is_null() && module.hasattr(kContinuation)) {
    return Error(
        ErrorCode::BadModel,
        fmt::format("'{}' has lost the record that tsq wrote into it: Python's torch.jit.save drops the "
                    "files beside a model",
                    path),
        "load it with _extra_files={'tsq.json': ''}, and save it with what that returns");
  }
  const StageKind kind = metadata.is_object()
                             ? kind_of_stage(metadata.value("stage", ""), metadata.value("training", false))
                             : StageKind();
  if (!kind.what.empty()) {
    return Error(ErrorCode::BadModel, fmt::format("{}: it is {}", text, kind.what),
                 fmt::format("{}, or give the {} model", kind.remedy, name));
  }
  if (detail::is_rest_of_training(module)) {
    return Error(ErrorCode::BadModel,
                 fmt::format("{}: it rounds as in training, and freezing or tracing it lost what it was "
                             "prepared with",
                             text),
                 "save the model that was trained with torch.jit.save, as it is");
  }
  const std::string_view before = name == "prepared" ? "prepare" : "prepare, calibrate and convert";
  return Error(ErrorCode::BadModel, std::move(text), fmt::format("{} the float model first", before));
}

Loaded as_stage(const std::string& path, Module module, const char* name) {
  Loaded loaded{.module = std::move(module), .json = read_metadata(path)};
  if (loaded.json.is_null() || loaded.json.value("stage", "") != name)
    throw other_stage(path, loaded.module, name);
  if (loaded.json.value("layout", 0) != detail::kLayout || !loaded.module.hasattr(kContinuation))
    throw changed_file(path, "was written by another version of tsq, whose files this one does not read");
  loaded.continuation = loaded.module.attr(kContinuation).toTupleRef().elements().at(0).toModule();
  if (loaded.continuation.attr(kFingerprint).toStringRef() != fingerprint_of(loaded.json)) {
    throw changed_file(
        path,
        "was changed after tsq wrote it: its recipe, table, mapping or version are not those that "
        "its observers were made with");
  }
  return loaded;
}

std::optional<double> number_in(const nlohmann::json& json, const char* key) {
  return json.contains(key) ? std::optional(json.at(key).get<double>()) : std::nullopt;
}

/// The profile that was named when the model was prepared.
std::shared_ptr<const MachineProfile> machine_in(const nlohmann::json& json) {
  if (!json.contains("machine")) return nullptr;
  return std::make_shared<const MachineProfile>(MachineProfile::from_dict(json.at("machine")));
}

/// The stage that a configuration makes of a float model.
std::shared_ptr<Stage> prepare_again(const Module& float_model, const nlohmann::json& json) {
  const at::NoGradGuard no_grad;
  return detail::prepared_stage(
      {.float_model = float_model,
       .mapping = QConfigMapping::from_dict(json.at("qconfig_mapping")),
       .backend = BackendConfig::from_dict(json.at("backend_config")),
       .custom = PrepareCustomConfig::from_dict(json.at("prepare_custom_config")),
       .equalization = EqualizationMapping::from_dict(json.value("equalization", nlohmann::json::object())),
       .options = {.recipe = recipe_from_name(json.value("recipe", "fx")),
                   .target_cpu = target_cpu_from_name(json.value("target_cpu", "native")),
                   .target = lowering_target_from_name(json.value("target", "stock")),
                   .machine = machine_in(json),
                   .smooth_quant = number_in(json, "smooth_quant"),
                   .cross_layer_margin = number_in(json, "cross_layer_margin"),
                   .weight_rounding = weight_rounding_from_name(json.value("weight_rounding", "nearest")),
                   .effort = effort_from_name(json.value("effort", "normal")),
                   .decibel_price = number_in(json, "decibel_price"),
                   .python_source = json.value("python_source", false)},
       .trains = json.value("training", false)});
}

/// Python's torch.jit.save keeps the module alone: what it was prepared with is in there.
Prepared load_trained(const Module& module) {
  std::shared_ptr<Stage> stage = prepare_again(detail::trained_float_model(module),
                                               nlohmann::json::parse(detail::training_configuration(module)));
  detail::take_trained_observers(*stage, module);
  return Stage::make<Prepared>(std::move(stage));
}

ir::Facts facts_in(const std::string& path, const Loaded& loaded, const ir::Model& model) {
  try {
    return detail::facts_of_text(loaded.continuation.attr(kFacts).toStringRef(), model);
  } catch (const nlohmann::json::exception& error) {
    throw changed_file(path, fmt::format("has facts that cannot be read: {}", json_reason(error)).c_str());
  }
}

/// The plan of a file; null where it has none, and where the processor at hand has other kernels at fault
/// than the one that the plan was made on.
std::shared_ptr<const Plan> plan_in(const std::string& path, const Loaded& loaded, const Stage& stage) {
  const bool is_for_others =
      loaded.json.value("processor_faults", nlohmann::json()) != detail::processor_faults_of(stage).to_json();
  if (!loaded.continuation.hasattr(kPlan) || is_for_others) return nullptr;
  try {
    const nlohmann::json json = parse_json(loaded.continuation.attr(kPlan).toStringRef(), "plan");
    return std::make_shared<const Plan>(Plan::from_dict(json));
  } catch (const Error& error) {
    throw changed_file(path, fmt::format("has a plan that cannot be read: {}", error.problem()).c_str());
  }
}

std::shared_ptr<detail::FoundOnce> found_in(const std::string& path, const Loaded& loaded) {
  if (!loaded.continuation.hasattr(kNoise)) return nullptr;
  auto once = std::make_shared<detail::FoundOnce>();
  try {
    once->noise = std::make_shared<const noise::NoiseByName>(
        noise::NoiseByName::from_dict(nlohmann::json::parse(loaded.continuation.attr(kNoise).toStringRef())));
  } catch (const nlohmann::json::exception& error) {
    throw changed_file(path, fmt::format("has noise that cannot be read: {}", json_reason(error)).c_str());
  }
  return once;
}

/// The stage of a file, with fresh observers. They must observe what those of the file did: the same values
/// under the same names.
std::shared_ptr<Stage> stage_in(const std::string& path, const Loaded& loaded) {
  std::shared_ptr<Stage> stage = prepare_again(loaded.continuation.attr(kFloatModel).toModule(), loaded.json);
  if (as_map<std::string>(loaded.continuation.attr(kObserverNames)) != names_by_value(stage->model))
    throw changed_file(path, "has observers of other values than its float model has");
  stage->model.mean_errors = as_map<at::Tensor>(loaded.continuation.attr(kMeanErrors));
  stage->model.input_factors = as_map<at::Tensor>(loaded.continuation.attr(kInputFactors));
  stage->model.facts = facts_in(path, loaded, stage->model);
  stage->seen = loaded.json.value("calibration", std::map<std::string, std::size_t>());
  stage->plan = plan_in(path, loaded, *stage);
  stage->found = found_in(path, loaded);
  return stage;
}

/// Whether two modules hold the same values. Modules of classes that became one are other objects than they
/// were before.
bool holds_the_same(const Module& a, const Module& b) {
  if (a._ivalue() == b._ivalue()) return true;
  return std::ranges::equal(
      a._ivalue()->slots(), b._ivalue()->slots(), [](const c10::IValue& one, const c10::IValue& other) {
        return one.isModule() && other.isModule() ? holds_the_same(one.toModule(), other.toModule())
                                                  : one.is(other);
      });
}

/// What `from` has in the place that `module` has in an emitted module.
std::optional<Module> counterpart(const Module& module, const Module& emitted, const Module& from) {
  if (holds_the_same(emitted, module)) return from;
  for (const auto& inner : emitted.named_children()) {
    if (!from.hasattr(inner.name)) continue;
    if (auto found = counterpart(module, inner.value, from.attr(inner.name).toModule())) return found;
  }
  return std::nullopt;
}

/// The calibrated observers of a loaded module in place of the fresh ones.
void take_observers(Stage& stage, const Module& from) {
  for (ir::ObserverEntry& observer : stage.model.observers) {
    if (from.hasattr(observer.name)) observer.module = from.attr(observer.name).toModule();
  }
  for (const auto& [path, fresh] : detail::observed_modules(stage.model))
    detail::set_observed_module(stage.model, path, counterpart(fresh, stage.module, from).value_or(fresh));
  for (const auto& [path, child] : stage.standalone) {
    take_observers(*child, counterpart(child->module, stage.module, from).value_or(child->module));
    detail::set_standalone_modules(stage.model, path, child->module);
  }
  stage.module = detail::module_of(stage);
}

/// `visit(module, name)` for each calibrated observer of a stage, under the name that a reference's
/// continuation keeps it by.
template <typename Visit>
void for_each_observer(ir::Model& model, const std::map<std::string, std::shared_ptr<Stage>>& standalone,
                       const std::string& prefix, const Visit& visit) {
  for (ir::ObserverEntry& observer : model.observers) {
    if (observer.module) visit(*observer.module, prefix + observer.name);
  }
  std::size_t index = 0;
  for (auto& [path, module] : detail::observed_modules(model)) {
    visit(module, fmt::format("{}module_{}", prefix, index++));
    detail::set_observed_module(model, path, module);
  }
  for (const auto& [path, child] : standalone) {
    for_each_observer(child->observed ? *child->observed : child->model, child->standalone,
                      fmt::format("{}{}_", prefix, index++), visit);
  }
  for (auto& [path, fake_quantize] : model.weight_fake_quants)
    visit(fake_quantize, fmt::format("{}weight_{}", prefix, index++));
}

}  // namespace

void Prepared::save(const std::string& path, const ExtraFiles& extra_files) const {
  const nlohmann::json configuration = detail::continuation_of(*stage_, "prepared");
  if (stage_->trains) return io::save_archive(stage_->module, configuration, path, extra_files);
  const at::NoGradGuard no_grad;
  Stage stage = *stage_;
  detail::take_measured(stage.model, *stage_);
  Module module = detail::module_of(stage);
  Module continuation = continuation_module(stage, configuration, detail::decided_plan(*stage_));
  module = with_continuation(std::move(module), continuation);
  set_content(continuation, module, /*parameters_only=*/true);
  io::save_archive(module, configuration, path, extra_files);
}

Prepared Prepared::load(const std::string& path) {
  Module module = tsq::load(path);
  if (detail::is_training_module(module)) return load_trained(module);
  const Loaded loaded = as_stage(path, std::move(module), "prepared");
  check_content(path, loaded.module, loaded.continuation, /*parameters_only=*/true);
  std::shared_ptr<Stage> stage = stage_in(path, loaded);
  take_observers(*stage, loaded.module);
  return Stage::make<Prepared>(std::move(stage));
}

namespace {

/// `visit(model, prefix)` for the model of a stage and those of standalone modules in it.
template <typename Model, typename Visit>
void for_each_model(Model& model, const std::map<std::string, std::shared_ptr<Stage>>& standalone,
                    const std::string& prefix, const Visit& visit) {
  visit(model, prefix);
  std::size_t index = 0;
  for (const auto& [path, child] : standalone)
    for_each_model(child->model, child->standalone, fmt::format("{}{}_", prefix, index++), visit);
}

/// An observer of products without them, as many zeros that are stored once: what they are for is done.
Module as_kept(const Module& observer) {
  if (!observer.hasattr(kProducts)) return observer;
  Module kept = observer.copy();
  const at::Tensor products = kept.attr(kProducts).toTensor();
  if (products.numel() > 0)
    kept.setattr(kProducts, at::zeros({1}, products.options()).expand(products.sizes()));
  return kept;
}

Module continuation_of_reference(const Stage& stage, const nlohmann::json& configuration) {
  Module continuation =
      continuation_module(stage, configuration, std::make_shared<const Plan>(detail::plan_of(stage)));
  for_each_observer(*stage.observed, stage.standalone, kObserverPrefix,
                    [&](const Module& observer, const std::string& name) {
                      continuation.register_module(name, as_kept(observer));
                    });
  std::map<std::string, at::Tensor> rounding;
  for_each_model(stage.model, stage.standalone, "", [&](const ir::Model& model, const std::string& prefix) {
    for (const auto& [call, learned] : model.learned_rounding) {
      rounding.emplace(fmt::format("{}{}_codes", prefix, call), learned.codes);
      rounding.emplace(fmt::format("{}{}_scales", prefix, call), learned.scales);
      rounding.emplace(fmt::format("{}{}_excess", prefix, call), learned.excess);
    }
  });
  continuation.register_attribute(
      kRounding, c10::DictType::create(c10::StringType::get(), c10::TensorType::get()), as_dict(rounding));
  if (!stage.trained_parameters.empty()) {
    continuation.register_attribute(kTrained,
                                    c10::DictType::create(c10::StringType::get(), c10::TensorType::get()),
                                    as_dict(stage.trained_parameters));
  }
  return continuation;
}

Reference reference_in(const std::string& path, const Loaded& loaded);

/// The parameters of a module that trains, by name.
std::map<std::string, at::Tensor> parameters_by_name(const Module& module) {
  std::map<std::string, at::Tensor> parameters;
  for (const auto& parameter : module.named_parameters()) parameters.emplace(parameter.name, parameter.value);
  return parameters;
}

}  // namespace

void Reference::save(const std::string& path, const ExtraFiles& extra_files) const {
  const nlohmann::json configuration = detail::continuation_of(*stage_, "reference");
  Module module = detail::module_of(*stage_);
  Module continuation = continuation_of_reference(*stage_, configuration);
  module = with_continuation(std::move(module), continuation);
  set_content(continuation, module, /*parameters_only=*/false);
  io::save_archive(module, configuration, path, extra_files);
}

Module reference_to_train(const Reference& reference) {
  const Stage& stage = detail::stage_of(reference);
  const nlohmann::json configuration = detail::continuation_of(stage, "reference");
  Module module =
      with_continuation(detail::module_to_train(stage), continuation_of_reference(stage, configuration));
  module.register_attribute(detail::kReferenceToTrain, c10::StringType::get(), configuration.dump());
  return module;
}

bool is_reference_to_train(const Module& module) {
  return module.hasattr(detail::kReferenceToTrain) && module.hasattr(kContinuation);
}

Reference trained_reference(const Module& trained) {
  if (!is_reference_to_train(trained))
    throw Error(ErrorCode::BadModel, "the model is no reference model that trains",
                "give the model that reference_to_train made, after training");
  const Loaded loaded{.module = trained,
                      .continuation = trained.attr(kContinuation).toTupleRef().elements().at(0).toModule(),
                      .json = nlohmann::json::parse(trained.attr(detail::kReferenceToTrain).toStringRef())};
  Reference reference = reference_in("the trained model", loaded);
  detail::take_parameters(detail::stage_of(reference), parameters_by_name(trained));
  return reference;
}

Reference Reference::load(const std::string& path) {
  Module module = tsq::load(path);
  if (is_reference_to_train(module)) return trained_reference(module);
  const Loaded loaded = as_stage(path, std::move(module), "reference");
  check_content(path, loaded.module, loaded.continuation, /*parameters_only=*/false);
  return reference_in(path, loaded);
}

namespace {

/// The rounding of weights that a reference's file keeps.
void take_rounding(Stage& stage, const std::map<std::string, at::Tensor>& kept) {
  for_each_model(stage.model, stage.standalone, "", [&](ir::Model& model, const std::string& prefix) {
    model.rounding_is_known = true;
    for (std::size_t call = 0; call < model.calls.size(); ++call) {
      const auto kept_as = [&](const char* name) {
        return kept.at(fmt::format("{}{}_{}", prefix, call, name));
      };
      if (!kept.contains(fmt::format("{}{}_codes", prefix, call))) continue;
      model.learned_rounding.emplace(
          call, ir::LearnedRounding{
                    .codes = kept_as("codes"), .scales = kept_as("scales"), .excess = kept_as("excess")});
    }
  });
}

Reference reference_in(const std::string& path, const Loaded& loaded) {
  std::shared_ptr<Stage> stage = stage_in(path, loaded);
  for_each_observer(stage->model, stage->standalone, kObserverPrefix,
                    [&](Module& observer, const std::string& name) {
                      observer = loaded.continuation.attr(name).toModule();
                    });
  take_rounding(*stage, as_map<at::Tensor>(loaded.continuation.attr(kRounding)));
  stage->kept_float = loaded.json.value("kept_float", std::map<std::string, std::string>());
  const nlohmann::json mapping = loaded.json.value("convert_qconfig_mapping", nlohmann::json());
  const BackendConfig backend = stage->backend;
  Reference reference = convert_to_reference(
      Stage::make<Prepared>(std::move(stage)), backend,
      {.custom = ConvertCustomConfig::from_dict(
                     loaded.json.value("convert_custom_config", nlohmann::json::object()))
                     .set_preserved_attributes(
                         loaded.json.value("preserved_attributes", std::vector<std::string>()))
                     .set_allow_uncalibrated(true),
       .mapping = mapping.is_null() ? std::nullopt : std::optional(QConfigMapping::from_dict(mapping))});
  if (loaded.continuation.hasattr(kTrained)) {
    detail::take_parameters(detail::stage_of(reference),
                            as_map<at::Tensor>(loaded.continuation.attr(kTrained)));
  }
  return reference;
}

}  // namespace

}  // namespace tsq
