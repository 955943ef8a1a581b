// Layers that fake-quantize → layers with weight qparams (torch/ao/quantization/fx/convert.py,
// convert_weighted_module).

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_propagation.h>

#include <map>
#include <set>
#include <string>

#include "backends/kernels/layer_kind.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "observers/fake_quantize.h"
#include "observers/observer_module.h"
#include "operators/constant_expressions.h"
#include "operators/weighted.h"
#include "passes/train/passes.h"
#include "torchscript/modules/training_layers.h"

namespace tsq::passes {
namespace {

using ir::ModuleCall;
using torch::jit::Module;

/// LibTorch chooses kernels by whether a parameter trains: that is copied too.
Module copy_in_eval_mode(const Module& module) {
  Module copy = module.deepcopy();
  const auto trained = module.parameters();
  auto of_model = trained.begin();
  for (const at::Tensor& parameter : copy.parameters())
    parameter.set_requires_grad((*of_model++).requires_grad());
  copy.eval();
  return copy;
}

/// A condition whose parts are known, as a constant.
void fold_condition(std::shared_ptr<torch::jit::Graph>& graph, Node* node) {
  const bool is_condition =
      node->kind().is_aten() && node->outputs().size() == 1 && node->output()->type() == c10::BoolType::get();
  if (!is_condition) return;
  const auto result = torch::jit::runNodeIfInputsAreConstant(node);
  if (!result || !result->front().isBool()) return;
  const torch::jit::WithInsertPoint guard(node);
  node->output()->replaceAllUsesWith(graph->insertConstant(result->front()));
}

/// Takes a branch of the first `if` whose condition is known. False where there is none.
bool choose_branch(std::shared_ptr<torch::jit::Graph>& graph) {
  for (Node* node : ir::LiveNodes(*graph)) {
    fold_condition(graph, node);
    if (node->kind() != c10::prim::If) continue;
    const auto condition = torch::jit::constant_as<bool>(node->input(0));
    if (!condition) continue;
    ir::take_branch(node, *condition);
    return true;
  }
  return false;
}

void set_eval_mode(std::shared_ptr<torch::jit::Graph>& graph, const ir::UserSlots& slots) {
  bool has_changed = false;
  for (Node* node : ir::nodes_in_order(*graph)) {
    if (node->kind() != c10::prim::GetAttr) continue;
    const auto slot = slots.find(node->s(c10::attr::name));
    if (slot == slots.end() || slot->second.name != "training") continue;
    const torch::jit::WithInsertPoint guard(node);
    node->output()->replaceAllUsesWith(graph->insertConstant(false));
    has_changed = true;
  }
  if (!has_changed) return;
  while (choose_branch(graph)) {
  }
  ir::eliminate_dead_code(*graph);
}

/// nni.ConvBnReLU2d.to_float is nni.ConvReLU2d: what is left beside the batch norm tells the type.
Symbol fused_type(const ModuleCall& root) {
  const std::string dims =
      root.weighted->stride.empty() ? "" : fmt::format("{}d", root.weighted->stride.size());
  return symbol(fmt::format("torch.ao.nn.intrinsic.{}ReLU{}", dims.empty() ? "Linear" : "Conv", dims));
}

/// Whether a fused layer already has the class that it has without its batch norm.
bool is_named_without_batch_norm(const ModuleCall& call) {
  const bool is_plain = call.type == call.members.front().type;
  return !is_plain && !torchscript::is_training_class(call.type) &&
         call.type.name.find("Bn") == std::string_view::npos;
}

at::Tensor detached_copy(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().clone().set_requires_grad(tensor.requires_grad()) : tensor;
}

class FinishTraining {
 public:
  FinishTraining(Model& model, Recipe recipe) : model_(model), recipe_(recipe) {}

  void run() {
    for (const Node* node : ir::nodes_in_order(*model_.graph)) {
      if (!ir::is_module_call(node)) continue;
      ModuleCall& call = ir::call_of(model_, node);
      const bool trained = torchscript::is_training_layer(model_, call);
      finish(call, trained);
      Decision* decision = ir::decision_of(model_, node);
      if (trained && decision != nullptr) decision->op = ir::display_name(model_, node);
    }
  }

 private:
  void finish(ModuleCall& call, bool trained) {
    const std::string path = call.path;
    if (trained) make_float(call);
    copy_parameters(call);
    for (ModuleCall& member : call.members) copy_parameters(member);
    if (!trained) return;
    if (call.embedding) {
      call.embedding->weight_qparams = qparams_of(path, call.embedding->weight);
    } else if (ir::Weighted* weighted = ir::weighted_of(call)) {
      weighted->weight_qparams = qparams_of(path, weighted->weight);
    }
  }

  static void make_float(ModuleCall& call) {
    if (call.members.empty()) {
      if (!torchscript::is_training_class(call.type)) return;
      call.type = symbol(fmt::format("torch.nn.{}", call.type.name.substr(call.type.name.rfind('.') + 1)));
      return;
    }
    ModuleCall& root = call.members.front();
    if (call.members.size() > 1 && ir::is_batch_norm(call.members[1])) {
      const auto bn = operators::batch_norm_parameters(*call.members[1].module);
      root.weighted = operators::fold_batch_norm(*root.weighted, *bn, root.type);
      call.members.erase(call.members.begin() + 1);
    }
    if (is_named_without_batch_norm(call)) return;
    if (call.members.size() > 1) {
      call.type = fused_type(root);
      return;
    }
    ModuleCall alone = root;
    alone.parts = call.parts;
    call = std::move(alone);
  }

  void copy_parameters(ModuleCall& call) {
    if (call.weighted) {
      call.weighted->weight = detached_copy(call.weighted->weight);
      call.weighted->bias = detached_copy(call.weighted->bias);
      call.module.reset();
    }
    if (call.embedding) call.embedding->weight = detached_copy(call.embedding->weight);
    if (!call.module) return;
    const auto [found, is_new] = copies_.try_emplace(call.module->_ivalue().get(), *call.module);
    if (is_new) found->second = copy_in_eval_mode(*call.module);
    call.module = found->second;
  }

  /// QT-82: as in FX, the folded weight is observed once more. Recipe best keeps the grid that was trained
  /// (QT-100, QT-103).
  QParams qparams_of(const std::string& path, const at::Tensor& weight) {
    const auto known = qparams_.find(path);
    if (known != qparams_.end()) return known->second;
    Module fake_quantize = model_.weight_fake_quants.at(path).deepcopy();
    const bool keeps_grid = recipe_ == Recipe::Best && saw_data(fake_quantize);
    if (!keeps_grid) fake_quantize.forward({weight.detach()});
    return qparams_
        .emplace(path, keeps_grid ? trained_qparams(fake_quantize) : calculate_qparams(fake_quantize))
        .first->second;
  }

  Model& model_;
  Recipe recipe_;
  std::map<const void*, Module> copies_{};
  std::map<std::string, QParams> qparams_{};  ///< by path
};

/// _run_weight_observers: each call of a function runs once more what makes its weight of parameters, with
/// the observers in it. What these were before stays as it is: another copy of the model may go on training.
class FunctionalWeights {
 public:
  explicit FunctionalWeights(Model& model) : model_(model) {}

  void observe() {
    const operators::ConstantExpressions parameters(
        model_, [](const Node* /*observer*/, const at::Tensor& value) { return value; });
    for (const Node* node : ir::nodes_in_order(*model_.graph)) {
      const bool is_function = !ir::is_module_call(node) && kernels::layer_kind(model_, node);
      if (!is_function || node->inputs().size() < 2 || !ir::is_observer(node->input(1)->node())) continue;
      if (!parameters.value_of(node->input(1))) continue;
      const operators::ConstantExpressions again(
          model_, [&](const Node* observer, const at::Tensor& value) { return seen(observer, value); });
      (void)again.value_of(node->input(1));
    }
  }

 private:
  at::Tensor seen(const Node* observer, const at::Tensor& value) {
    const std::size_t index = ir::observer_index(observer);
    ir::ObserverEntry& entry = model_.observers.at(index);
    if (copied_.insert(index).second) entry.module = entry.module.value().deepcopy();
    entry.result.reset();
    return entry.module->forward({value.detach()}).toTensor();
  }

  Model& model_;
  std::set<std::size_t> copied_{};
};

/// Observers find the scale and zero point by which values were rounded in training (QT-100, QT-102).
void keep_trained_grids(Model& model) {
  for (ir::ObserverEntry& entry : model.observers) {
    if (entry.spec.fake_quantize.empty() || !saw_data(entry.module.value())) continue;
    entry.result = ir::ObserverResult{.qparams = trained_qparams(*entry.module),
                                      .saw_other_dtype = saw_other_dtype(*entry.module)};
  }
}

}  // namespace

bool finish_training(Model& model, const PassContext& context) {
  const c10::NoGradGuard no_grad;
  set_eval_mode(model.graph, model.slots);
  for (ir::Method& method : model.methods) {
    if (method.graph) set_eval_mode(method.graph, model.slots);
  }
  for (const ir::Attribute& each : model.attributes) {
    if (each.is_parameter && each.value.isTensor())
      model.attributes.setattr(each.name, detached_copy(each.value.toTensor()));
  }
  FinishTraining(model, context.options.recipe).run();
  if (context.options.recipe == Recipe::Best) {
    keep_trained_grids(model);
  } else {
    FunctionalWeights(model).observe();
  }
  return true;
}

}  // namespace tsq::passes
