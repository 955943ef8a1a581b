#include "torchscript/frozen_parameters.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <map>
#include <vector>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/arguments.h"

namespace tsq::torchscript {
namespace {

using ir::Graph;
using ir::Node;
using torch::jit::Module;

struct Use {
  Node* node{};
  std::size_t input{};
  at::Tensor tensor{};
  std::string name{};
};

std::vector<Use> weights_in(Graph& graph) {
  std::vector<Use> uses;
  std::map<std::string, std::size_t> counts;
  for (Node* node : ir::nodes_in_order(graph)) {
    if (!node->kind().is_aten()) continue;
    bool is_counted = false;
    for (const char* argument : {"weight", "bias"}) {
      const auto index = operators::argument_index(node, argument);
      if (!index) continue;
      const auto constant = torch::jit::toIValue(node->input(*index));
      if (!constant || !constant->isTensor() || !constant->toTensor().is_floating_point()) continue;
      std::string kind = node->kind().toUnqualString();
      if (!is_counted) ++counts[kind];
      is_counted = true;
      uses.push_back({.node = node,
                      .input = *index,
                      .tensor = constant->toTensor(),
                      .name = fmt::format("{}_{}_{}", kind, counts[kind] - 1, argument)});
    }
  }
  return uses;
}

}  // namespace

Module with_frozen_parameters(const Module& model) {
  const auto forward = model.find_method("forward");
  if (!forward || model.parameters().size() > 0) return model;
  if (weights_in(*torch::jit::toGraphFunction(forward->function()).graph()).empty()) return model;
  Module copy = model.clone(/*inplace=*/true);
  const auto graph = torch::jit::toGraphFunction(copy.get_method("forward").function()).graph();
  std::map<const void*, std::string> names;
  for (const Use& use : weights_in(*graph)) {
    const auto [found, is_new] = names.try_emplace(use.tensor.unsafeGetTensorImpl(), use.name);
    if (is_new) {
      copy.register_parameter(use.name, use.tensor.detach().clone().requires_grad_(), /*is_buffer=*/false);
    }
    use.node->replaceInput(use.input, ir::read_attribute(use.node, graph->inputs().at(0), found->second,
                                                         c10::TensorType::get()));
  }
  graph->inputs().at(0)->setType(copy.type());
  return copy;
}

}  // namespace tsq::torchscript
