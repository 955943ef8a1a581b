#include "passes/lower/program/shape_readers.h"

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

enum class Read { Nothing, Rank, Sizes };

Read read_by_node(const Node* node) {
  if (node->kind() == c10::aten::dim) return Read::Rank;
  return node->kind() == c10::aten::size || node->kind() == c10::aten::numel ? Read::Sizes : Read::Nothing;
}

/// Whether the result of a node has of its first operand what is read.
bool keeps(const Model& model, const Node* node, Read read) {
  if (node->outputs().size() != 1 || node->inputs().empty()) return false;
  if (node->kind() == ir::kQuantize || node->kind() == ir::kDequantize) return true;
  const auto* row = operators::traits_of(model, node);
  if (read == Read::Sizes)
    return operators::has(row, operators::KeepsShape) && operators::is_elementwise(row);
  const bool is_layer = ir::is_module_call(node) && ir::weighted_of(ir::call_of(model, node)) != nullptr &&
                        node->inputs().size() == 1;
  return is_layer || operators::keeps_rank(row);
}

bool read_early(const Model& model, Node* node) {
  const Read read = read_by_node(node);
  if (read == Read::Nothing) return false;
  const Value* value = node->input(0);
  while (keeps(model, value->node(), read) && !ir::operands(value->node()).empty())
    value = ir::operands(value->node()).front();
  if (value == node->input(0)) return false;
  node->replaceInput(0, const_cast<Value*>(value));
  return true;
}

/// One size that is taken out of the list of all.
bool read_one(Node* node) {
  if (node->kind() != c10::aten::__getitem__) return false;
  Node* list = node->input(0)->node();
  const auto dim = ir::whole_number_constant(node->input(1));
  if (list->kind() != c10::aten::size || list->inputs().size() != 1 || !dim) return false;
  replace_node(node,
               ir::insert_before(node, "aten::size", {list->input(0), node->input(1)}, c10::IntType::get()));
  return true;
}

}  // namespace

bool read_shapes_early(Model& model) {
  const bool has_single = change_nodes(model, read_one);
  return change_nodes(model, [&](Node* node) { return read_early(model, node); }) || has_single;
}

}  // namespace tsq::passes
