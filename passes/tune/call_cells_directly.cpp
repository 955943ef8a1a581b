// Recurrent cells in float call their operator, where it takes the shapes as they are. The module's forward
// asks eight times for them first, which takes 1 to 2 microseconds.
//   h, c = LSTMCell(x, (h, c))   →   if x, h and c are matrices: h, c = lstm_cell(x, [h, c], …)
//                                    else:                       h, c = LSTMCell(x, (h, c))

#include <algorithm>
#include <array>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/tune/passes.h"
#include "torchscript/modules/recurrent.h"

namespace tsq::passes {
namespace {

struct Cell {
  std::string_view type;
  std::string_view op;
  std::size_t states{};
};
constexpr std::array kCells{Cell{"torch.nn.LSTMCell", "aten::lstm_cell", 2},
                            Cell{"torch.nn.GRUCell", "aten::gru_cell", 1}};

const Cell* cell_of(const ir::ModuleCall& call) {
  const auto found = std::ranges::find(kCells, std::string_view(call.type.name), &Cell::type);
  return found == kCells.end() || !call.recurrent_qparams.empty() || !call.module ? nullptr : &*found;
}

/// Modules that were traced, or made of operators, have no branches.
bool asks_for_shapes(const ir::ModuleCall& call) {
  const auto body = torch::jit::toGraphFunction(call.module->get_method(call.method).function()).graph();
  return std::ranges::any_of(ir::nodes_in_order(*body),
                             [](const Node* node) { return !node->blocks().empty(); });
}

/// The states that a cell is given; empty where they are not told one by one, or may be missing.
std::vector<Value*> states_of(const Node* cell) {
  if (cell->inputs().size() != 2) return {};
  Value* states = const_cast<Value*>(cell->input(1));
  if (states->type()->kind() == c10::TypeKind::TensorType) return {states};
  if (states->node()->kind() != c10::prim::TupleConstruct) return {};
  return states->node()->inputs().vec();
}

/// Whether all values are matrices.
Value* are_matrices(const ir::Rewriter& in_front, std::span<Value* const> values) {
  Value* all = nullptr;
  for (Value* value : values) {
    constexpr int64_t kMatrix = 2;
    Value* rank = in_front.op("aten::dim", {value}, c10::IntType::get());
    Value* one = in_front.op("aten::eq", {rank, in_front.constant(kMatrix)}, c10::BoolType::get());
    all = all == nullptr ? one : in_front.op("aten::__and__", {all, one}, c10::BoolType::get());
  }
  return all;
}

/// The operator's result, as the module `from` returns it, at the end of `block`.
Value* result_of(Model& model, torch::jit::Block* block, const Cell& cell, const Node* from,
                 const torchscript::RecurrentWeights& parameters, std::span<Value* const> values) {
  const ir::Rewriter at_end(model, block->return_node(), from);
  const std::string& path = ir::call_of(model, from).path;
  const std::vector<Value*> states(values.begin() + 1, values.end());
  const bool gives_tuple = states.size() > 1;
  std::vector<Value*> inputs{
      values[0],
      gives_tuple ? ir::list_before(block->return_node(), c10::TensorType::get(), states) : states[0]};
  const auto take = [&](const std::vector<at::Tensor>& tensors, const char* name) {
    for (const at::Tensor& tensor : tensors)
      inputs.push_back(tensor.defined() ? at_end.attribute(path + name, tensor.detach())
                                        : at_end.constant(c10::IValue()));
  };
  take(parameters.weights, "_weight");
  take(parameters.biases, "_bias");
  Node* op = at_end.node(c10::Symbol::fromQualString(std::string(cell.op)), inputs, cell.states);
  return gives_tuple ? ir::tuple_before(block->return_node(), op->outputs()) : op->output();
}

/// False where the cell's weights are not known.
bool call_directly(Model& model, Node* node, const Cell& cell, const std::vector<Value*>& values) {
  const torchscript::RecurrentWeights parameters = torchscript::recurrent_weights(ir::call_of(model, node));
  if (parameters.weights.size() != 2) return false;
  const ir::Rewriter in_front(model, node);
  Node* branch = in_front.node(c10::prim::If, {are_matrices(in_front, values)});
  branch->output()->setType(node->output()->type());
  node->output()->replaceAllUsesWith(branch->output());
  torch::jit::Block* direct = branch->addBlock();
  direct->registerOutput(result_of(model, direct, cell, node, parameters, values));
  torch::jit::Block* otherwise = branch->addBlock();
  node->moveBefore(otherwise->return_node());
  otherwise->registerOutput(node->output());
  return true;
}

}  // namespace

bool call_cells_directly(Model& model, const PassContext& /*context*/) {
  return change_nodes(model, [&](Node* node) {
    if (!ir::is_module_call(node)) return false;
    const Cell* cell = cell_of(ir::call_of(model, node));
    if (cell == nullptr || !asks_for_shapes(ir::call_of(model, node))) return false;
    std::vector<Value*> values = states_of(node);
    if (values.size() != cell->states) return false;
    values.insert(values.begin(), node->input(0));
    return call_directly(model, node, *cell, values);
  });
}

}  // namespace tsq::passes
