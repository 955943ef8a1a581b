#include "passes/capture/module_calls.h"

#include <tsq/error.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/methods.h"
#include "passes/capture/leaf_modules.h"
#include "passes/capture/module_values.h"
#include "passes/capture/places.h"
#include "passes/context/nodes.h"

namespace tsq::passes {
namespace {

/// A copy of a module and its children that shares their tensors: its attributes may be changed without the
/// user's module seeing it.
Module copy_in_eval_mode(const Module& module) {
  Module copy = module.copy();
  for (const auto& child : module.named_children())
    copy.setattr(child.name, copy_in_eval_mode(child.value)._ivalue());
  if (copy.hasattr("training")) copy.setattr("training", false);
  return copy;
}

/// E-02.
std::optional<ir::StandaloneBoundary> standalone_boundary(const CaptureSource& source, const Module& module) {
  const std::string path = path_of(source, module);
  const StandaloneModuleConfig* config = source.custom.standalone_module(path, class_symbol(module));
  if (config == nullptr) return std::nullopt;
  const std::vector<int>& outputs = config->prepare_custom_config.output_quantized_indexes();
  if (!outputs.empty() && outputs.front() != 0) {
    throw Error(ErrorCode::BadConfig,
                "a standalone module has one output, its output_quantized_idxs must be [0]",
                "give [0] for an output that leaves quantized, [] for a float one", Where{.layer = path});
  }
  return ir::StandaloneBoundary{
      .input_quantized_indexes = config->prepare_custom_config.input_quantized_indexes(),
      .output_is_quantized = !outputs.empty()};
}

/// Other methods call what forward becomes.
void keep_forward_call(ir::Model& model, Node* call) {
  Node* kept = ir::Rewriter(model, call).node(ir::kForwardKind, call->inputs());
  kept->replaceInput(0, model.graph->inputs().at(0));
  kept->output()->copyMetadata(call->output());
  replace_node(call, kept->output());
}

const Module& leaf_of(Capturing& state, const Module& module) {
  const void* key = module._ivalue().get();
  const auto known = state.leaves.find(key);
  return known != state.leaves.end()
             ? known->second
             : state.leaves.emplace(key, in_its_mode(state.source, module)).first->second;
}

void make_module_call(Capturing& state, Node* node, const Module& module) {
  const std::string path = path_of(state.source, module);
  const std::string method = node->s(c10::attr::name);
  ir::ModuleCall call{.type = class_symbol(module),
                      .path = path,
                      .module = leaf_of(state, module),
                      .method = method,
                      .standalone = standalone_boundary(state.source, module)};
  if (!call.standalone && state.source.custom.observed_module(call.type) != nullptr)
    call.custom = ir::CustomState::Float;  // E-08
  ir::Value* made = ir::Rewriter(state.model, node).call(std::move(call), node->inputs().slice(1).vec());
  made->setType(node->output()->type());
  // A module is the same wherever it is called.
  ir::set_place(made->node(), places_of(path, method));
  replace_node(node, made);
}

}  // namespace

Module in_its_mode(const CaptureSource& source, const Module& module) {
  return source.trains ? module : copy_in_eval_mode(module);
}

void make_module_calls(Capturing& state) {
  ir::Graph& graph = *state.model.graph;
  forget_module_values(state, graph);
  for (Node* node : ir::LiveNodes(graph)) {
    if (node->kind() != c10::prim::CallMethod || !is_forward(node->s(c10::attr::name))) continue;
    const auto module = module_of(state, node->input(0));
    if (!module) continue;
    if (is_root(state.source, *module)) {
      keep_forward_call(state.model, node);
    } else {
      make_module_call(state, node, *module);
    }
  }
  drop_module_values(graph);
}

}  // namespace tsq::passes
