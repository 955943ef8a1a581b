#include "passes/capture/evaluate_python.h"

#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/loop_unrolling.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/peephole_dict_idioms.h>
#include <torch/csrc/jit/passes/peephole_list_idioms.h>
#include <torch/csrc/jit/passes/peephole_non_tensor.h>

#include "ir/analysis.h"
#include "ir/known_containers.h"

namespace tsq::passes {
namespace {

void fold_conditions(std::shared_ptr<ir::Graph>& graph) {
  torch::jit::ConstantPropagationImmutableTypes(graph);
  torch::jit::PeepholeOptimizeNonTensor(graph);
  torch::jit::ConstantPropagationImmutableTypes(graph);
}

}  // namespace

void evaluate_python(std::shared_ptr<ir::Graph> graph) {
  fold_conditions(graph);
  if (torch::jit::UnrollConstantLoops(graph)) fold_conditions(graph);
  torch::jit::EliminateDeadCode(graph);
  for (ir::Node* node : ir::nodes_in_order(*graph)) {
    if (node->kind() == c10::prim::ListConstruct) ir::replace_grown_list(*graph, node);
    if (node->kind() == c10::prim::DictConstruct) ir::replace_filled_dict(*graph, node);
  }
  torch::jit::PeepholeOptimizeListIdioms(graph, /*refine_list_len=*/false);
  torch::jit::PeepholeOptimizeDictIdioms(graph);
  torch::jit::LowerSimpleTuples(graph);
  fold_conditions(graph);
  torch::jit::EliminateDeadCode(graph);
}

}  // namespace tsq::passes
