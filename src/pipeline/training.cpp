#include "pipeline/training.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>
#include <tsq/error.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "ir/analysis.h"
#include "operators/inlined_graph.h"
#include "pipeline/run.h"
#include "pipeline/stage.h"
#include "pipeline/stage_file.h"
#include "torchscript/frozen_parameters.h"
#include "torchscript/modules/training_module.h"
#include "torchscript/traced_modes.h"

namespace tsq::detail {
namespace {

using torch::jit::Module;
using torchscript::submodule_at;

constexpr const char* kConfiguration = "tsq_training";
constexpr const char* kFloatModel = "tsq_float_model";
constexpr const char* kWeightFakeQuant = "weight_fake_quant";

/// Calls `visit(owner, name, tensor)` for each parameter and buffer.
template <typename Visit>
void for_each_tensor(const Module& module, const Visit& visit) {
  for (Module each : module.modules()) {
    const auto type = each.type();
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
      const std::string& name = type->getAttributeName(i);
      if (!type->is_parameter(i) && !type->is_buffer(i)) continue;
      const c10::IValue value = each.attr(name);
      // What a sparse tensor has of memory is in other tensors.
      if (value.isTensor() && value.toTensor().defined() && value.toTensor().layout() == at::kStrided)
        visit(each, name, value.toTensor());
    }
  }
}

/// The module and its children anew, with the same tensors.
Module shallow_copy(const Module& module, std::map<const void*, Module>& copies) {
  const auto known = copies.find(module._ivalue().get());
  if (known != copies.end()) return known->second;
  Module copy = module.copy();
  copies.emplace(module._ivalue().get(), copy);
  for (const auto& child : module.named_children())
    copy.setattr(child.name, shallow_copy(child.value, copies)._ivalue());
  return copy;
}

/// The model with tensors that have a size and no memory: its code and structure.
Module without_values(const Module& model) {
  std::map<const void*, Module> copies;
  const Module copy = shallow_copy(model, copies);
  std::map<const void*, at::Tensor> empty;  // what is one parameter stays one
  for_each_tensor(copy, [&](Module& owner, const std::string& name, const at::Tensor& tensor) {
    at::Tensor& made = empty[tensor.unsafeGetTensorImpl()];
    if (!made.defined()) {
      made = at::zeros({}, tensor.options()).expand(tensor.sizes());
      made.set_requires_grad(tensor.requires_grad());
    }
    owner.setattr(name, made);
  });
  return copy;
}

at::Tensor as_bytes(const Module& module) {
  std::ostringstream stream;
  module.save(stream);
  std::string text = stream.str();
  return at::from_blob(text.data(), {static_cast<int64_t>(text.size())}, at::kByte).clone();
}

/// The values of `trained` where `module` has such; an observed module need not have those of the float one.
void take_values(Module module, const Module& trained) {
  const auto type = module.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    const std::string& name = type->getAttributeName(i);
    if (!trained.hasattr(name)) continue;
    const c10::IValue value = module.attr(name);
    // A recurrent module computes with a list of its parameters.
    const bool has_state = value.isTensorList() || type->is_parameter(i) || type->is_buffer(i);
    if (has_state && !value.isNone()) module.setattr(name, trained.attr(name));
    if (value.isModule()) take_values(value.toModule(), trained.attr(name).toModule());
  }
}

/// deepcopy forgets which parameters learn.
Module copy_of_observer(const Module& observer) {
  Module copy = observer.deepcopy();
  const auto learned = observer.parameters();
  auto original = learned.begin();
  for (const at::Tensor& parameter : copy.parameters())
    parameter.set_requires_grad((*original++).requires_grad());
  return copy;
}

/// Copies of the observers and fake quantize modules of one stage for another of the same structure.
void copy_observers(const Stage& from, Stage& to) {
  for (std::size_t i = 0; i < from.model.observers.size(); ++i)
    to.model.observers.at(i).module = copy_of_observer(*from.model.observers[i].module);
  for (const auto& [path, fake_quantize] : from.model.weight_fake_quants)
    to.model.weight_fake_quants.at(path) = copy_of_observer(fake_quantize);
  for (const auto& [path, observed] : observed_modules(from.model))
    set_observed_module(to.model, path, copy_of_observer(observed));
  for (const auto& [path, child] : from.standalone) copy_observers(*child, *to.standalone.at(path));
  to.module = trained_module(to);
}

}  // namespace

Module copy_to_train(const Module& given) {
  const Module model = torchscript::with_traced_modes(torchscript::with_frozen_parameters(given));
  Module copy = model.deepcopy();
  std::vector<bool> requires_grad;
  for_each_tensor(model, [&](Module&, const std::string&, const at::Tensor& tensor) {
    requires_grad.push_back(tensor.requires_grad());
  });
  std::size_t index = 0;
  for_each_tensor(copy, [&](Module&, const std::string&, const at::Tensor& tensor) {
    tensor.set_requires_grad(requires_grad.at(index++));
  });
  copy.train();
  return copy;
}

Module trained_module(const Stage& stage) {
  const c10::NoGradGuard no_grad;
  std::map<std::string, Module> standalone;
  for (const auto& [path, child] : stage.standalone) standalone.emplace(path, child->module);
  Module module =
      torchscript::training_module({.gm = stage.model, .model = stage.float_model, .standalone = standalone});
  module.register_attribute(kConfiguration, c10::StringType::get(),
                            continuation_of(stage, "prepared").dump());
  module.register_attribute(kFloatModel, c10::TensorType::get(), as_bytes(without_values(stage.float_model)));
  return module;
}

bool is_training_module(const Module& module) {
  return module.hasattr(kConfiguration) && module.hasattr(kFloatModel);
}

bool is_rest_of_training(const Module& module) {
  if (is_training_module(module) || !module.find_method("forward")) return false;
  const auto graph = operators::inlined_graph(module, "forward");
  return std::ranges::any_of(ir::nodes_in_order(*graph), [](const ir::Node* node) {
    const std::string_view name = node->kind().toQualString();
    return name.starts_with("aten::fake_quantize_") || name.starts_with("aten::fused_moving_avg_obs_");
  });
}

std::string training_configuration(const Module& module) { return module.attr(kConfiguration).toStringRef(); }

Module trained_float_model(const Module& module) {
  const at::Tensor bytes = module.attr(kFloatModel).toTensor().cpu().contiguous();
  std::istringstream stream(
      std::string(static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(bytes.numel())));
  Module model = torch::jit::load(stream);
  take_values(model, module);
  return model;
}

std::shared_ptr<Stage> independent_training_copy(const Stage& stage) {
  std::shared_ptr<Stage> copy = prepared_stage({.float_model = copy_to_train(stage.float_model),
                                                .mapping = stage.mapping,
                                                .backend = stage.backend,
                                                .custom = stage.custom,
                                                .options = stage.options,
                                                .trains = true,
                                                .mapping_around = stage.mapping_around});
  copy_observers(stage, *copy);
  copy->seen = stage.seen;
  return copy;
}

void take_trained_observers(Stage& stage, const Module& module) {
  for (ir::ObserverEntry& observer : stage.model.observers)
    observer.module =
        module.attr(torchscript::observer_attribute(stage.float_model, observer.name)).toModule();
  for (auto& [path, fake_quantize] : stage.model.weight_fake_quants)
    fake_quantize = submodule_at(module, path).attr(kWeightFakeQuant).toModule();
  for (const auto& [path, fresh] : observed_modules(stage.model))
    set_observed_module(stage.model, path, submodule_at(module, path));
  for (auto& [path, child] : stage.standalone) take_trained_observers(*child, submodule_at(module, path));
  stage.module = trained_module(stage);
}

}  // namespace tsq::detail
