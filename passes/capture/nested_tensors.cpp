#include "passes/capture/nested_tensors.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"

namespace tsq::passes {
namespace {

bool makes_nested_tensor(const Node* node) {
  return std::string_view(node->kind().toQualString()) == "aten::_nested_tensor_from_mask";
}

Value* insert_operator(Node* before, const char* kind, const std::vector<Value*>& inputs, std::size_t scope) {
  Value* made = ir::insert_before(before, kind, inputs);
  ir::set_scope(made->node(), scope);
  return made;
}

void keep_lengths(Capturing& state, Node* node, std::size_t scope) {
  Value* padded = insert_operator(node, "aten::alias", {node->input(0)}, scope);
  state.left_out[padded] = insert_operator(node, "aten::logical_not", {node->input(1)}, scope);
  state.aliases.push_back(padded->node());
  replace_node(node, padded);
}

void fill_left_out(Node* node, Value* left_out, std::size_t scope) {
  Value* last = ir::constant_before(node, int64_t{-1});
  Value* positions = insert_operator(node, "aten::unsqueeze", {left_out, last}, scope);
  replace_node(
      node, insert_operator(node, "aten::masked_fill", {node->input(0), positions, node->input(1)}, scope));
}

}  // namespace

bool chooses_nested_tensors(const Module& module) {
  return std::ranges::any_of(nodes_of_methods(module), [](const Node* node) {
    return makes_nested_tensor(node) && node->owningBlock()->owningNode() != nullptr;
  });
}

bool replace_nested_tensor(Capturing& state, Node* node, std::size_t scope) {
  if (makes_nested_tensor(node)) {
    keep_lengths(state, node, scope);
    return true;
  }
  Value* left_out = left_out_of(state, node);
  const bool pads = std::string_view(node->kind().toQualString()) == "aten::to_padded_tensor";
  if (left_out == nullptr || !pads) return false;
  fill_left_out(node, left_out, scope);
  return true;
}

Value* left_out_of(const Capturing& state, const Node* node) {
  if (node->inputs().empty()) return nullptr;
  const auto found = state.left_out.find(node->input(0));
  return found == state.left_out.end() ? nullptr : found->second;
}

/// The last arguments of a fused layer: its mask, and that it has a value for each position of a sample.
void give_mask(Node* layer, Value* left_out) {
  constexpr int64_t kOfPositions = 1;
  const std::size_t last = layer->inputs().size() - 1;
  layer->replaceInput(last - 1, left_out);
  layer->replaceInput(last, ir::constant_before(layer, kOfPositions));
}

void drop_aliases(Capturing& state) {
  for (Node* alias : state.aliases) bypass(alias);
  state.aliases.clear();
  state.left_out.clear();
}

}  // namespace tsq::passes
