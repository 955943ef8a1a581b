#include "passes/lower/program/shape_readers.h"

#include <vector>

#include "backends/programs/translations.h"
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

/// x.shape[2:] of one that takes images alone, or x.shape[-2:], which are as many sizes as an image has: the
/// first of the two.
std::optional<std::int64_t> first_of_size(const Model& model, const Node* node) {
  if (!programs::is_interpolate(model, node)) return std::nullopt;
  const Node* slice = node->input(2)->node();
  const auto mode = ir::constant_value(node->input(4));
  if (!mode || !mode->isString() || slice->kind() != c10::aten::slice || slice->inputs().size() != 4)
    return std::nullopt;
  const Node* asked = slice->input(0)->node();
  const auto begin = ir::whole_number_constant(slice->input(1));
  const auto end = ir::constant_value(slice->input(2));
  const bool is_of_shape = asked->kind() == c10::aten::size && asked->inputs().size() == 1;
  const bool takes_all = end && end->isNone() && ir::whole_number_constant(slice->input(3)) == 1;
  const bool is_of_image = begin == -2 || (begin == 2 && mode->toStringRef() == "bilinear");
  return is_of_shape && takes_all && is_of_image ? begin : std::nullopt;
}

}  // namespace

bool read_shapes_early(Model& model) {
  const bool has_single = change_nodes(model, read_one);
  return change_nodes(model, [&](Node* node) { return read_early(model, node); }) || has_single;
}

bool write_sizes_of_images(Model& model) {
  const bool has_changed = change_nodes(model, [&](Node* node) {
    const auto first = first_of_size(model, node);
    if (!first) return false;
    const torch::jit::WithInsertPoint guard(node);
    Value* image = node->input(2)->node()->input(0)->node()->input(0);
    std::vector<Value*> sizes;
    for (const std::int64_t dim : {*first, *first + 1})
      sizes.push_back(model.graph->insert(c10::aten::size, {image, dim}));
    Node* list = model.graph->insertNode(model.graph->createList(c10::IntType::get(), sizes));
    node->replaceInput(2, list->output());
    return true;
  });
  return has_changed && ir::eliminate_dead_code(*model.graph);
}

}  // namespace tsq::passes
