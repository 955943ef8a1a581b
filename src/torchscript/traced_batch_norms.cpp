#include "torchscript/traced_batch_norms.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"

namespace tsq::torchscript {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;
using torch::jit::Module;

constexpr const char* kPassedCounter = "num_batches_tracked";

std::shared_ptr<Graph> code_of(const torch::jit::Method& method) {
  return torch::jit::toGraphFunction(method.function()).graph();
}

/// Where a method has the tensor that it normalises and the result, among its arguments and what it returns.
struct Places {
  std::size_t input{};
  std::optional<std::size_t> result{};  ///< in a tuple
};
using PlacesByMethod = std::map<std::string, Places>;

template <typename Values>
std::optional<std::size_t> place_of(const Value* value, const Values& values) {
  const auto found = std::find(values.begin(), values.end(), value);
  return found == values.end() ? std::nullopt
                               : std::optional(static_cast<std::size_t>(found - values.begin()));
}

Node* batch_norm_in(Graph& graph) {
  const std::vector<Node*> nodes = ir::nodes_in_order(graph);
  const auto found =
      std::ranges::find_if(nodes, [](const Node* node) { return node->kind() == c10::aten::batch_norm; });
  return found == nodes.end() ? nullptr : *found;
}

std::optional<Places> places_in(Graph& graph) {
  const Node* node = batch_norm_in(graph);
  if (node == nullptr) return std::nullopt;
  const auto input = place_of(node->input(0), graph.inputs());
  const Value* returned = graph.outputs().at(0);
  if (!input) return std::nullopt;
  if (returned == node->output()) return Places{.input = *input};
  const auto result = place_of(node->output(), returned->node()->inputs());
  const bool is_tuple = returned->node()->kind() == c10::prim::TupleConstruct;
  return is_tuple && result ? std::optional(Places{.input = *input, .result = result}) : std::nullopt;
}

/// Of a batch norm whose methods pass its counter around; empty for other modules.
PlacesByMethod passing_methods(const Module& module) {
  if (!module.hasattr(kPassedCounter)) return {};
  PlacesByMethod places;
  bool passes = false;
  for (const torch::jit::Method& method : module.get_methods()) {
    const auto found = places_in(*code_of(method));
    if (!found) return {};
    passes |= found->input != 1 || found->result;
    places.emplace(method.name(), *found);
  }
  const auto forward = places.find("forward");
  return passes && forward != places.end() && forward->second.input == 1 ? places : PlacesByMethod();
}

/// Whoever reads a part of the tuple that a call returns reads `result`, or the counter itself.
void replace_parts(Node* call, std::size_t place, Value* result) {
  for (Node* unpack : ir::users(call->output())) {
    if (unpack->kind() != c10::prim::TupleUnpack) continue;
    for (std::size_t i = 0; i < unpack->outputs().size(); ++i) {
      Value* part = unpack->output(i);
      if (!part->hasUses()) continue;
      part->replaceAllUsesWith(
          i == place ? result
                     : ir::read_attribute(unpack, call->input(0), kPassedCounter, c10::TensorType::get()));
    }
    unpack->destroy();
  }
}

void call_forward(Node* call, const Places& places) {
  Node* made = ir::insert_node(call, c10::prim::CallMethod, {call->input(0), call->input(places.input)});
  made->s_(c10::attr::name, "forward");
  made->copyMetadata(call);
  if (places.result) {
    replace_parts(call, *places.result, made->output());
  } else {
    call->output()->replaceAllUsesWith(made->output());
  }
  if (!call->hasUses()) call->destroy();
}

void return_result_alone(const torch::jit::Method& method) {
  const auto graph = code_of(method);
  const Node* node = batch_norm_in(*graph);
  if (graph->outputs().at(0) == node->output()) return;
  graph->eraseOutput(0);
  graph->registerOutput(const_cast<Node*>(node)->output());
  method.function().setSchema(
      method.function().getSchema().cloneWithReturns({c10::Argument("", c10::TensorType::get())}));
}

}  // namespace

void call_batch_norms_alike(const Module& model) {
  std::map<const c10::Type*, PlacesByMethod> passing;
  for (const Module& module : model.modules()) {
    if (PlacesByMethod places = passing_methods(module); !places.empty())
      passing.emplace(module.type().get(), std::move(places));
  }
  if (passing.empty()) return;
  for (const Module& module : model.modules()) {
    for (const torch::jit::Method& method : module.get_methods()) {
      for (Node* node : ir::LiveNodes(*code_of(method))) {
        if (node->kind() != c10::prim::CallMethod) continue;
        const auto found = passing.find(node->input(0)->type().get());
        if (found != passing.end()) call_forward(node, found->second.at(node->s(c10::attr::name)));
      }
    }
  }
  for (const Module& module : model.modules()) {
    if (passing.contains(module.type().get())) return_result_alone(module.get_method("forward"));
  }
}

}  // namespace tsq::torchscript
