#include "passes/capture/evaluate_python.h"

#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/loop_unrolling.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/peephole_dict_idioms.h>
#include <torch/csrc/jit/passes/peephole_list_idioms.h>
#include <torch/csrc/jit/passes/peephole_non_tensor.h>

#include <algorithm>

#include "ir/analysis.h"
#include "ir/known_containers.h"
#include "ir/live_nodes.h"

namespace tsq::passes {
namespace {

void fold_conditions(std::shared_ptr<ir::Graph>& graph) {
  torch::jit::ConstantPropagationImmutableTypes(graph);
  torch::jit::PeepholeOptimizeNonTensor(graph);
  torch::jit::ConstantPropagationImmutableTypes(graph);
}

/// Whether LibTorch's idioms of lists and dicts can match. Each of them builds an alias analysis of the whole
/// graph first, most of what capturing a large chain of layers took.
bool reads_containers(ir::Graph& graph) {
  return std::ranges::any_of(ir::nodes_in_order(graph), [](const ir::Node* node) {
    if (node->kind() == c10::prim::ListUnpack) return true;
    if (!node->kind().is_aten() || node->inputs().empty()) return false;
    const c10::TypeKind kind = node->input(0)->type()->kind();
    return kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType;
  });
}

}  // namespace

void evaluate_python(std::shared_ptr<ir::Graph> graph) {
  fold_conditions(graph);
  if (torch::jit::UnrollConstantLoops(graph)) fold_conditions(graph);
  torch::jit::EliminateDeadCode(graph->block());
  for (ir::Node* node : ir::LiveNodes(*graph)) {
    if (node->kind() == c10::prim::ListConstruct) {
      ir::replace_grown_list(*graph, node);
    } else if (node->kind() == c10::prim::DictConstruct) {
      ir::replace_filled_dict(*graph, node);
    }
  }
  if (reads_containers(*graph)) {
    torch::jit::PeepholeOptimizeListIdioms(graph, /*refine_list_len=*/false);
    torch::jit::PeepholeOptimizeDictIdioms(graph);
  }
  torch::jit::LowerSimpleTuples(graph);
  fold_conditions(graph);
  torch::jit::EliminateDeadCode(graph);
}

}  // namespace tsq::passes
