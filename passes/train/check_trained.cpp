// A NaN or an infinite value that training has left in a weight, a statistic or a range has no code: the
// converted model would return NaN for every input. Nor do kernels quantize other dtypes than float32.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include "ir/analysis.h"
#include "observers/fake_quantize.h"
#include "passes/train/passes.h"
#include "torchscript/modules/training_layers.h"

namespace tsq::passes {
namespace {

using torch::jit::Module;

bool is_finite(const at::Tensor& tensor) {
  return !tensor.defined() || !tensor.is_floating_point() || at::isfinite(tensor).all().item<bool>();
}

/// Channels that saw nothing have their minimum at plus infinity and their maximum at minus infinity.
bool is_finite_range(const at::Tensor& min_val, const at::Tensor& max_val) {
  const at::Tensor saw_nothing = at::isposinf(min_val).logical_and(at::isneginf(max_val));
  const at::Tensor is_known = at::isfinite(min_val).logical_and(at::isfinite(max_val));
  return saw_nothing.logical_or(is_known).all().item<bool>();
}

bool has_finite_range(const Module& fake_quantize) {
  const Module observer = observer_of_fake_quantize(fake_quantize);
  if (!is_finite(fake_quantize.attr("scale").toTensor())) return false;
  return !observer.hasattr("min_val") ||
         is_finite_range(observer.attr("min_val").toTensor(), observer.attr("max_val").toTensor());
}

[[noreturn]] void refuse(const std::string& what, const std::string& layer) {
  throw Error(
      ErrorCode::BadModel, fmt::format("{} has NaN or infinite values after training", what),
      "go back to a state of training before them, and look for the batch or the learning rate that made "
      "them",
      Where{.layer = layer});
}

void check_tensor_of(const std::string& layer, const std::string& what, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point()) return;
  if (tensor.scalar_type() != at::kFloat) {
    throw Error(ErrorCode::BadModel,
                fmt::format("{} is {} after training, and quantize takes float32", what,
                            dtype_name(tensor.scalar_type())),
                "save the trained model in float32 (model.float())", Where{.layer = layer});
  }
  if (!is_finite(tensor)) refuse(what, layer);
}

void check_module(const Module& module, const ir::ModuleCall& call) {
  const auto name_of = [&](const std::string& name) {
    return fmt::format("'{}' of a {}", name, call.type.name);
  };
  for (const auto& each : module.named_parameters())
    check_tensor_of(call.path, name_of(each.name), each.value);
  for (const char* name : {"running_mean", "running_var"}) {
    const c10::IValue value = module.attr(name, c10::IValue());
    if (value.isTensor()) check_tensor_of(call.path, name_of(name), value.toTensor());
  }
}

void check_layer(const ir::ModuleCall& call) {
  check_tensor_of(call.path, "the weight", torchscript::weight_to_round(call));
  const ir::Weighted* weighted = ir::weighted_of(call);
  if (weighted != nullptr) check_tensor_of(call.path, "the bias", weighted->bias);
  for (const ir::ModuleCall& member : call.members) {
    if (member.module && !member.weighted) check_module(*member.module, member);
  }
}

/// The value that each observer sees.
void check_observers(const ir::Model& model) {
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_observer(node)) continue;
    const ir::ObserverEntry& entry = ir::observer_of(model, node);
    if (!entry.module || !is_fake_quantize(*entry.module) || has_finite_range(*entry.module)) continue;
    refuse(fmt::format("the range of '{}'", node->input(0)->debugName()), entry.layer);
  }
}

}  // namespace

bool check_trained(ir::Model& model, const PassContext& /*context*/) {
  const c10::NoGradGuard no_grad;
  check_observers(model);
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_module_call(node)) continue;
    const ir::ModuleCall& call = ir::call_of(model, node);
    if (torchscript::is_training_layer(model, call)) check_layer(call);
  }
  for (const auto& [path, fake_quantize] : model.weight_fake_quants) {
    if (is_fake_quantize(fake_quantize) && !has_finite_range(fake_quantize))
      refuse("the range of the weight", path);
  }
  return false;
}

}  // namespace tsq::passes
