#include "torchscript/traced_modes.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <map>
#include <vector>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "operators/arguments.h"
#include "torchscript/traced_batch_norms.h"

namespace tsq::torchscript {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;
using torch::jit::Module;

constexpr const char* kTraining = "training";
constexpr const char* kCounter = "num_batches_tracked";

/// A norm without running statistics takes those of its batch in either mode.
bool lacks_statistics(const Node* node) {
  const Value* mean = operators::argument_named(node, "running_mean");
  const auto constant = mean == nullptr ? std::nullopt : torch::jit::toIValue(mean);
  return constant && constant->isNone();
}

/// The argument that says whether an operator trains, where it is a constant.
std::optional<std::size_t> constant_mode(const Node* node) {
  if (!node->kind().is_aten() || lacks_statistics(node)) return std::nullopt;
  for (const char* name : {"train", kTraining, "use_input_stats"}) {
    const auto index = operators::argument_index(node, name);
    if (index && torch::jit::constant_as<bool>(node->input(*index))) return index;
  }
  return std::nullopt;
}

/// The share of attention weights that an operator drops, where it does: a trace in evaluation mode has 0.
std::optional<std::size_t> constant_dropout(const Node* node) {
  if (!node->kind().is_aten()) return std::nullopt;
  const auto index = operators::argument_index(node, "dropout_p");
  const auto share = index ? torch::jit::constant_as<double>(node->input(*index)) : std::nullopt;
  return share && *share > 0 ? index : std::nullopt;
}

std::shared_ptr<Graph> graph_of(const torch::jit::Method& method) {
  return torch::jit::toGraphFunction(method.function()).graph();
}

std::vector<Module> modules_of(const Module& model) {
  std::vector<Module> modules;
  for (const Module& module : model.modules()) modules.push_back(module);
  return modules;
}

bool has_node(const Module& module, bool (*is_wanted)(const Node*)) {
  return std::ranges::any_of(module.get_methods(), [&](const torch::jit::Method& method) {
    return std::ranges::any_of(ir::nodes_in_order(*graph_of(method)), is_wanted);
  });
}

bool reads_mode(const Module& module) {
  return has_node(module, [](const Node* node) {
    return node->kind() == c10::prim::GetAttr && node->s(c10::attr::name) == kTraining;
  });
}

bool is_of_library(const Module& module) {
  const auto& name = module.type()->name();
  return name && name->qualifiedName().starts_with("__torch__.torch.nn.");
}

/// Modules of torch.nn read their mode where they are scripted, so that a constant tells a trace. In the
/// user's own modules it can be what was written; there no module of the file reads its mode.
bool is_traced(const Module& module, bool model_reads_mode) {
  return module.hasattr(kTraining) && (!model_reads_mode || is_of_library(module)) &&
         has_node(module, [](const Node* node) { return constant_mode(node) || constant_dropout(node); });
}

Value* attribute(Graph& graph, const char* name, const c10::TypePtr& type) {
  return ir::read_attribute(graph.insertPoint(), graph.inputs().at(0), name, type);
}

bool counts_batches(const Node* node) {
  if (node->kind() != c10::aten::add_) return false;
  const Node* counter = node->input(0)->node();
  return counter->kind() == c10::prim::GetAttr && counter->s(c10::attr::name) == kCounter;
}

void remove_counting(Graph& graph) {
  for (Node* node : ir::nodes_in_order(graph)) {
    if (!counts_batches(node)) continue;
    node->output()->replaceAllUsesWith(node->input(0));
    node->destroy();
  }
}

/// if self.training: self.num_batches_tracked.add_(1)
void count_batches(Graph& graph, Value* mode) {
  Node* choice = graph.insertNode(graph.create(c10::prim::If, {mode}, 0));
  torch::jit::Block* counting = choice->addBlock();
  choice->addBlock();
  const torch::jit::WithInsertPoint guard(counting);
  Value* counter = attribute(graph, kCounter, c10::TensorType::get());
  Value* one = graph.insertConstant(int64_t{1});
  ir::insert_before(graph.insertPoint(), "aten::add_", {counter, one, one});
}

/// p if self.training else 0.0
void drop_in_training(Graph& graph, Node* node, std::size_t share) {
  const torch::jit::WithInsertPoint guard(node);
  Value* mode = attribute(graph, kTraining, c10::BoolType::get());
  Node* choice = graph.insertNode(graph.create(c10::prim::If, {mode}, 1));
  choice->output()->setType(c10::FloatType::get());
  choice->addBlock()->registerOutput(node->input(share));
  torch::jit::Block* in_evaluation = choice->addBlock();
  const torch::jit::WithInsertPoint inside(in_evaluation);
  in_evaluation->registerOutput(graph.insertConstant(0.0));
  node->replaceInput(share, choice->output());
}

void follow_mode(const Module& module, Graph& graph) {
  const bool has_counter = module.hasattr(kCounter) && module.attr(kCounter).isTensor();
  if (has_counter) remove_counting(graph);
  for (Node* node : ir::LiveNodes(graph)) {
    if (const auto share = constant_dropout(node)) drop_in_training(graph, node, *share);
    const auto index = constant_mode(node);
    if (!index) continue;
    const torch::jit::WithInsertPoint guard(node);
    Value* mode = attribute(graph, kTraining, c10::BoolType::get());
    node->replaceInput(*index, mode);
    if (has_counter && node->kind() == c10::aten::batch_norm) count_batches(graph, mode);
  }
}

/// Module::clone makes two of a module that is registered twice.
void share_again(const Module& model, Module copy, std::map<const void*, Module>& copies) {
  copies.emplace(model._ivalue().get(), copy);
  for (const auto& child : model.named_children()) {
    const auto known = copies.find(child.value._ivalue().get());
    if (known != copies.end()) {
      copy.setattr(child.name, known->second._ivalue());
    } else {
      share_again(child.value, copy.attr(child.name).toModule(), copies);
    }
  }
}

}  // namespace

Module with_traced_modes(const Module& model) {
  const std::vector<Module> modules = modules_of(model);
  const bool model_reads_mode = std::ranges::any_of(modules, reads_mode);
  const auto traced = [&](const Module& module) { return is_traced(module, model_reads_mode); };
  if (std::ranges::none_of(modules, traced)) return model;
  Module copy = model.clone(/*inplace=*/true);
  std::map<const void*, Module> copies;
  share_again(model, copy, copies);
  call_batch_norms_alike(copy);
  for (const Module& module : copy.modules()) {
    if (!traced(module)) continue;  // also a class that has been changed already
    for (const torch::jit::Method& method : module.get_methods()) follow_mode(module, *graph_of(method));
  }
  return copy;
}

}  // namespace tsq::torchscript
