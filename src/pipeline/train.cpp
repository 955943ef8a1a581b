// The public verbs of training.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/dtype_config.h>
#include <tsq/error.h>
#include <tsq/train.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/recipe_options.h"
#include "config/names/known_names.h"
#include "ir/analysis.h"
#include "operators/weighted.h"
#include "pipeline/reference_training.h"
#include "pipeline/run.h"
#include "pipeline/stage.h"
#include "pipeline/training.h"
#include "torchscript/float_model.h"

namespace tsq {
namespace {

using torch::jit::Module;

void check_can_train(const Module& model) {
  bool has_parameters = false;
  for (const auto& parameter : model.named_parameters()) {
    if (!parameter.value.is_floating_point()) continue;
    has_parameters = true;
    if (parameter.value.scalar_type() == at::kFloat) continue;
    throw Error(ErrorCode::BadModel,
                fmt::format("parameter '{}' is {}, and only float32 is rounded in training", parameter.name,
                            dtype_name(parameter.value.scalar_type())),
                "train the model in float32 (model.float())");
  }
  if (!has_parameters) {
    throw Error(ErrorCode::BadModel, "the model has no parameters that could be trained",
                "quantize it without training");
  }
}

/// Calls `visit` with each QConfig of a mapping.
template <typename Visit>
void for_each_qconfig(const QConfigMapping& mapping, const Visit& visit) {
  const auto visit_if_given = [&](const MaybeQConfig& qconfig) {
    if (qconfig) visit(*qconfig);
  };
  visit_if_given(mapping.global_qconfig());
  for (const auto& entry : mapping.object_type_qconfigs()) visit_if_given(entry.second);
  for (const auto& entry : mapping.module_name_regex_qconfigs()) visit_if_given(entry.second);
  for (const auto& entry : mapping.module_name_qconfigs()) visit_if_given(entry.second);
  for (const auto& entry : mapping.module_name_object_type_order_qconfigs()) visit_if_given(entry.qconfig);
}

/// A mapping for calibration observes and rounds nothing: training would change nothing.
void check_rounds(const QConfigMapping& mapping) {
  bool has_qconfig = false;
  for_each_qconfig(mapping, [&](const QConfig& /*qconfig*/) { has_qconfig = true; });
  if (!has_qconfig || rounds_in_training(mapping)) return;
  throw Error(ErrorCode::BadConfig,
              "no QConfig of the mapping has a fake quantize class: nothing would be rounded in training",
              "use a mapping for training ('tsq qconfig show best_qat_x86', best_qat_qconfig_mapping)");
}

/// What post-training quantization alone does with values and weights.
void check_recipe(const PrepareOptions& options) {
  const auto refuse = [](const char* what) {
    throw Error(ErrorCode::BadConfig, fmt::format("a model that trains is not {}", what),
                "leave it out, or quantize without training");
  };
  if (!options.equalization.empty()) refuse("equalized");
  if (options.smooth_quant) refuse("smoothed");
  if (options.cross_layer_margin) refuse("equalized across layers");
}

/// The layers with weights that all compute in float wherever they are called, but for those that the mapping
/// leaves float.
std::set<std::string> float_layers(const ir::Model& model) {
  std::set<std::string> in_float;
  std::set<std::string> others;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_module_call(node)) continue;
    const ir::ModuleCall& call = ir::call_of(model, node);
    const Symbol root = ir::root_of(call).type;
    const ir::NodeRecord* record = ir::record_of(model, node);
    if (record == nullptr || !operators::is_weighted(root) || call.path.empty()) continue;
    const bool is_float = record->placement == ir::Placement::Float && record->reason != ir::Reason::Mapping;
    (is_float ? in_float : others).insert(call.path);
  }
  for (const std::string& path : others) in_float.erase(path);
  return in_float;
}

/// A function whose weight is a parameter has become a layer, at the path of the module that calls it.
bool is_layer(const Module& model, const std::string& path) {
  for (const auto& named : model.named_modules()) {
    const auto& name = named.value.type()->name();
    if (named.name == path && name) return operators::is_weighted(parse_symbol(name->qualifiedName()));
  }
  return false;
}

/// Calls a method of every module that has it, beside the model itself.
void call_on_all(const Module& module, const char* method) {
  const at::NoGradGuard no_grad;
  for (const Module& each : module.modules()) {
    if (each._ivalue() == module._ivalue()) continue;
    if (const auto found = each.find_method(method)) (*found)({});
  }
}

}  // namespace

Prepared prepare_qat(const Module& model, const QConfigMapping& mapping, const BackendConfig& backend,
                     const PrepareOptions& options) {
  torchscript::check_float_model(model);
  check_recipe(options);
  if (options.recipe == Recipe::Best) check_rounds(mapping);
  const at::NoGradGuard no_grad;
  const Module to_train = detail::copy_to_train(model);
  check_can_train(to_train);
  return detail::Stage::make<Prepared>(detail::prepared_stage({.float_model = to_train,
                                                               .mapping = mapping,
                                                               .backend = backend,
                                                               .custom = options.custom,
                                                               .options = detail::recipe_options(options),
                                                               .trains = true}));
}

QConfigMapping without_float_layers(QConfigMapping mapping, const Module& model, const BackendConfig& backend,
                                    std::span<const Sample> samples, const PrepareOptions& options) {
  PrepareOptions by_calibration = options;
  by_calibration.recipe = Recipe::Best;
  by_calibration.weight_rounding = WeightRounding::Nearest;  // no matter: nothing of it is kept
  Prepared prepared = prepare(model, best_qconfig_mapping(backend.engine()), backend, by_calibration);
  calibrate(prepared, samples);
  const Reference reference = convert_to_reference(prepared, backend);
  for (const std::string& path : float_layers(detail::stage_of(reference).model)) {
    if (is_layer(model, path)) mapping.set_module_name(path, std::nullopt);
  }
  return mapping;
}

bool rounds_in_training(const QConfigMapping& mapping) {
  bool rounds = false;
  for_each_qconfig(mapping, [&](const QConfig& qconfig) {
    rounds |= !qconfig.activation.fake_quantize.empty() || !qconfig.weight.fake_quantize.empty();
  });
  return rounds;
}

nlohmann::json training_metadata(const Module& module) {
  if (is_reference_to_train(module))
    return nlohmann::json::parse(module.attr(detail::kReferenceToTrain).toStringRef());
  if (!detail::is_training_module(module)) return nullptr;
  return nlohmann::json::parse(detail::training_configuration(module));
}

std::vector<at::Tensor> parameters_to_train(const Module& module) {
  std::vector<at::Tensor> parameters;
  std::set<const void*> seen;
  for (const at::Tensor& parameter : module.parameters()) {
    if (parameter.requires_grad() && seen.insert(parameter.unsafeGetTensorImpl()).second)
      parameters.push_back(parameter);
  }
  return parameters;
}

void enable_observer(const Module& module) { call_on_all(module, "enable_observer"); }
void disable_observer(const Module& module) { call_on_all(module, "disable_observer"); }
void enable_fake_quant(const Module& module) { call_on_all(module, "enable_fake_quant"); }
void disable_fake_quant(const Module& module) { call_on_all(module, "disable_fake_quant"); }
void freeze_bn_stats(const Module& module) { call_on_all(module, "freeze_bn_stats"); }
void update_bn_stats(const Module& module) { call_on_all(module, "update_bn_stats"); }

}  // namespace tsq
