#include "backends/programs/expansion.h"

#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/freeze_module.h>
#include <torch/csrc/jit/passes/normalize_ops.h>
#include <torch/csrc/jit/passes/peephole.h>

#include <algorithm>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"

namespace tsq::programs {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;
using torch::jit::Module;

void simplify(std::shared_ptr<Graph>& graph) {
  ir::inline_calls(*graph);
  torch::jit::NormalizeOps(graph);
  torch::jit::ConstantPropagation(graph);
  torch::jit::PeepholeOptimize(graph);
  torch::jit::EliminateDeadCode(graph);
}

/// Whether a node raises, or does not, and does nothing else.
bool only_asserts(const Node* node) {
  return node->kind() == c10::prim::If && node->outputs().empty() &&
         std::ranges::all_of(node->blocks(), [](const torch::jit::Block* block) {
           return std::ranges::all_of(block->nodes(), [](const Node* inner) {
             return inner->kind() == c10::prim::RaiseException || inner->kind() == c10::prim::Uninitialized ||
                    only_asserts(inner) || (!inner->hasSideEffects() && inner->blocks().empty());
           });
         });
}

/// What torch.nn asserts of shapes, the operators that follow check as well.
void drop_assertions(Graph& graph) {
  for (Node* node : ir::LiveNodes(graph)) {
    if (only_asserts(node)) node->destroy();
  }
  torch::jit::EliminateDeadCode(graph.block());
}

bool is_straight_line(const Graph& graph) {
  return graph.outputs().size() == 1 && std::ranges::all_of(graph.nodes(), [](const Node* node) {
           return node->blocks().empty() && !node->hasSideEffects();
         });
}

}  // namespace

std::shared_ptr<Graph> inlined_function(const Node* call) {
  auto graph = std::make_shared<Graph>();
  Node* copy = graph->createClone(const_cast<Node*>(call), [&](Value* read) -> Value* {
    if (const auto held = ir::constant_value(read)) return graph->insertConstant(*held);
    if (read->node()->kind() == c10::prim::Constant) {
      return graph->insertNode(graph->createClone(read->node(), [](Value* value) { return value; }))
          ->output();
    }
    Value* input = graph->addInput();
    input->setType(read->type());
    return input;
  });
  graph->insertNode(copy);
  graph->registerOutput(copy->output());
  simplify(graph);
  if (!ir::functional_name(call).empty()) drop_assertions(*graph);
  return graph;
}

namespace {

std::shared_ptr<Graph> of_module(const ir::ModuleCall& call) {
  if (!call.module) return nullptr;
  Module module = call.module->clone();
  module.eval();
  const Module frozen = torch::jit::freeze_module(module, {call.method});
  auto graph = frozen.get_method(call.method).graph()->copy();
  if (!graph->inputs().front()->uses().empty()) return nullptr;
  graph->eraseInput(0);
  simplify(graph);
  return graph;
}

}  // namespace

std::vector<const Value*> read_by_call(const Node* call) {
  std::vector<const Value*> read;
  for (const Value* value : call->inputs()) {
    if (!ir::is_constant(value) && !ir::constant_value(value)) read.push_back(value);
  }
  return read;
}

std::shared_ptr<Graph> expanded_call(const ir::Model& model, const Node* call) {
  std::shared_ptr<Graph> graph;
  if (call->kind() == c10::prim::CallFunction) {
    graph = inlined_function(call);
  } else if (ir::is_module_call(call)) {
    const ir::ModuleCall& called = ir::call_of(model, call);
    if (ir::is_opaque(called) || called.embedding || ir::weighted_of(called) != nullptr) return nullptr;
    if (called.members.empty()) graph = of_module(called);
  }
  if (graph == nullptr || !is_straight_line(*graph)) return nullptr;
  return graph->inputs().size() == read_by_call(call).size() ? graph : nullptr;
}

}  // namespace tsq::programs
