#include "operators/cell_patterns.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <unordered_set>

#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"

namespace tsq::operators {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

/// The two linear layers of a cell.
struct Gates {
  Node* input{};
  Node* hidden{};
};

/// Follows the values of one cell from its results to its linear layers (aten/src/ATen/native/RNN.cpp). Every
/// method returns null where the operator is another one, and remembers what it has passed.
class CellMatcher {
 public:
  explicit CellMatcher(Value* result) : result_(result) {}

  /// h' = o * tanh(c'), c' = f * c + i * g.
  Node* lstm() {
    Node* hidden = operation(result_, c10::aten::mul);
    Value* next_state = hidden == nullptr ? nullptr : operand(hidden->input(1), c10::aten::tanh);
    Node* sum = next_state == nullptr ? nullptr : operation(next_state, c10::aten::add);
    if (sum == nullptr) return nullptr;
    Node* kept = operation(sum->input(0), c10::aten::mul);
    Node* fresh = operation(sum->input(1), c10::aten::mul);
    if (kept == nullptr || fresh == nullptr) return nullptr;
    Value* gates = chunk(operand(hidden->input(0), c10::aten::sigmoid), 3, 4);
    const bool is_cell = gates != nullptr &&
                         chunk(operand(kept->input(0), c10::aten::sigmoid), 1, 4) == gates &&
                         chunk(operand(fresh->input(0), c10::aten::sigmoid), 0, 4) == gates &&
                         chunk(operand(fresh->input(1), c10::aten::tanh), 2, 4) == gates;
    const auto layers = is_cell ? summed_layers(gates) : std::nullopt;
    if (!layers) return nullptr;
    return replaced("aten::lstm_cell", *layers, {layers->hidden->input(0), kept->input(1)},
                    {result_, next_state});
  }

  /// h' = (h - n) * z + n.
  Node* gru() {
    Node* sum = operation(result_, c10::aten::add);
    Node* product = sum == nullptr ? nullptr : operation(sum->input(0), c10::aten::mul);
    Node* difference = product == nullptr ? nullptr : operation(product->input(0), c10::aten::sub);
    if (difference == nullptr || difference->input(1) != sum->input(1)) return nullptr;
    Value* fresh = operand(sum->input(1), c10::aten::tanh);
    Node* candidate = fresh == nullptr ? nullptr : operation(fresh, c10::aten::add);
    Node* reset = candidate == nullptr ? nullptr : operation(candidate->input(1), c10::aten::mul);
    if (reset == nullptr) return nullptr;
    Value* of_input = chunk(candidate->input(0), 2, 3);
    Value* of_hidden = chunk(reset->input(0), 2, 3);
    const bool is_cell = of_input != nullptr && of_hidden != nullptr &&
                         is_gate(product->input(1), 1, of_hidden, of_input) &&
                         is_gate(reset->input(1), 0, of_hidden, of_input);
    Node* input = is_cell ? operation(of_input, c10::aten::linear) : nullptr;
    Node* hidden = is_cell ? operation(of_hidden, c10::aten::linear) : nullptr;
    if (input == nullptr || hidden == nullptr || hidden->input(0) != difference->input(0)) return nullptr;
    return replaced("aten::gru_cell", {input, hidden}, {hidden->input(0)}, {result_});
  }

  /// h' = tanh or relu (linear(h) + linear(x)).
  Node* rnn() {
    for (const auto& [activation, cell] : {std::pair(c10::aten::tanh, "aten::rnn_tanh_cell"),
                                           std::pair(c10::aten::relu, "aten::rnn_relu_cell")}) {
      Value* gates = operand(result_, activation);
      const auto layers = gates == nullptr ? std::nullopt : summed_layers(gates);
      if (layers) return replaced(cell, *layers, {layers->hidden->input(0)}, {result_});
    }
    return nullptr;
  }

 private:
  /// The node that produces `value`, an operator or its in-place form.
  Node* operation(Value* value, c10::Symbol kind) {
    if (value == nullptr) return nullptr;
    Node* node = value->node();
    const std::string name = node->kind().toQualString();
    const std::string wanted = kind.toQualString();
    if (name != wanted && name != wanted + "_") return nullptr;
    if ((kind == c10::aten::add || kind == c10::aten::sub) &&
        (node->inputs().size() != 3 || ir::whole_number_constant(node->input(2)) != 1))
      return nullptr;
    passed_.insert(node);
    return node;
  }

  Value* operand(Value* value, c10::Symbol kind) {
    Node* node = operation(value, kind);
    return node == nullptr ? nullptr : node->input(0);
  }

  /// What `value` is a part of: number `index` of `count`.
  Value* chunk(Value* value, std::size_t index, int64_t count) {
    if (value == nullptr || value->node()->kind() != c10::prim::ListUnpack || value->offset() != index)
      return nullptr;
    Node* unpack = value->node();
    Node* chunks = unpack->input(0)->node();
    if (chunks->kind() != c10::Symbol::fromQualString("aten::unsafe_chunk") ||
        ir::whole_number_constant(chunks->input(1)) != count)
      return nullptr;
    passed_.insert(unpack);
    passed_.insert(chunks);
    return chunks->input(0);
  }

  bool is_gate(Value* value, std::size_t index, const Value* of_hidden, const Value* of_input) {
    Node* sum = operation(operand(value, c10::aten::sigmoid), c10::aten::add);
    return sum != nullptr && chunk(sum->input(0), index, 3) == of_hidden &&
           chunk(sum->input(1), index, 3) == of_input;
  }

  std::optional<Gates> summed_layers(Value* gates) {
    Node* sum = operation(gates, c10::aten::add);
    if (sum == nullptr) return std::nullopt;
    Node* hidden = operation(sum->input(0), c10::aten::linear);
    Node* input = operation(sum->input(1), c10::aten::linear);
    if (hidden == nullptr || input == nullptr) return std::nullopt;
    return Gates{input, hidden};
  }

  /// Whether anything outside reads what the cell computes besides its results.
  [[nodiscard]] bool is_private(const std::vector<Value*>& results) const {
    return std::ranges::all_of(passed_, [&](const Node* node) {
      return std::ranges::all_of(node->outputs(), [&](const Value* output) {
        return std::ranges::find(results, output) != results.end() ||
               std::ranges::all_of(output->uses(),
                                   [&](const torch::jit::Use& use) { return passed_.contains(use.user); });
      });
    });
  }

  /// Puts the cell in front of the last of `results`, which is made first. An LSTM's state is a list of two.
  Node* replaced(const char* kind, const Gates& layers, const std::vector<Value*>& state,
                 const std::vector<Value*>& results) {
    Node* first_result = results.back()->node();
    const bool in_one_block = std::ranges::all_of(
        passed_, [&](const Node* node) { return node->owningBlock() == first_result->owningBlock(); });
    if (!in_one_block || !is_private(results)) return nullptr;
    Value* hidden =
        state.size() > 1 ? ir::list_before(first_result, c10::TensorType::get(), state) : state.front();
    Node* cell = ir::insert_node(first_result, c10::Symbol::fromQualString(kind),
                                 {layers.input->input(0), hidden, layers.input->input(1),
                                  layers.hidden->input(1), layers.input->input(2), layers.hidden->input(2)},
                                 results.size());
    cell->setSourceRange(result_->node()->sourceRange());
    ir::take_scope(cell, result_->node());
    for (std::size_t i = 0; i < results.size(); ++i) results[i]->replaceAllUsesWith(cell->output(i));
    std::vector<Node*> nodes(passed_.begin(), passed_.end());
    std::ranges::sort(nodes, [](const Node* a, const Node* b) { return b->isBefore(a); });
    for (Node* node : nodes) node->destroy();
    return cell;
  }

  Value* result_;
  std::unordered_set<Node*> passed_;
};

bool ends_a_cell(const Node* node) {
  std::string_view name = node->kind().toQualString();
  if (name.ends_with('_')) name.remove_suffix(1);
  return name == "aten::mul" || name == "aten::add" || name == "aten::tanh" || name == "aten::relu";
}

}  // namespace

bool restore_cells(Graph& graph, const std::function<bool(const Node*)>& is_of_cell) {
  const auto restore_one = [&] {
    for (Node* node : ir::LiveNodes(graph)) {
      if (!ends_a_cell(node)) continue;
      Node* cell = CellMatcher(node->output()).lstm();
      if (cell == nullptr) cell = CellMatcher(node->output()).gru();
      if (cell == nullptr && is_of_cell(node)) cell = CellMatcher(node->output()).rnn();
      if (cell != nullptr) return true;
    }
    return false;
  };
  bool changed = false;
  while (restore_one()) changed = true;
  return changed;
}

}  // namespace tsq::operators
