// The public verbs of training.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/train.h>

#include "pipeline/run.h"
#include "pipeline/stage.h"
#include "pipeline/training.h"
#include "torchscript/float_model.h"

namespace tsq {
namespace {

using torch::jit::Module;

void check_can_train(const Module& model) {
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.is_floating_point()) return;
  }
  throw Error(ErrorCode::BadModel, "the model has no parameters that could be trained",
              "quantize it without training");
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
  if (!options.equalization.empty()) {
    throw Error(ErrorCode::BadConfig, "a model that trains is not equalized",
                "leave the equalization out, or quantize without training");
  }
  const at::NoGradGuard no_grad;
  const Module to_train = detail::copy_to_train(model);
  check_can_train(to_train);
  return detail::Stage::make<Prepared>(detail::prepared_stage({.float_model = to_train,
                                                               .mapping = mapping,
                                                               .backend = backend,
                                                               .custom = options.custom,
                                                               .options = options.recipe,
                                                               .trains = true}));
}

void enable_observer(const Module& module) { call_on_all(module, "enable_observer"); }
void disable_observer(const Module& module) { call_on_all(module, "disable_observer"); }
void enable_fake_quant(const Module& module) { call_on_all(module, "enable_fake_quant"); }
void disable_fake_quant(const Module& module) { call_on_all(module, "disable_fake_quant"); }
void freeze_bn_stats(const Module& module) { call_on_all(module, "freeze_bn_stats"); }
void update_bn_stats(const Module& module) { call_on_all(module, "update_bn_stats"); }

}  // namespace tsq
