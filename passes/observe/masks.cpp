// Masks, sizes and containers have no range: they are not observed.

#include "passes/observe/masks.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/analysis.h"
#include "passes/context/names.h"
#include "passes/observe/target_infos.h"

namespace tsq::passes {
namespace {

void add(const Model& model, const Value* value, Masks& masks) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::Constant) return;
  if (node->kind() == c10::prim::Param) {
    masks.inputs.insert(value);
    return;
  }
  masks.nodes.insert(node);
  const ir::Match* match = match_of(model, node);
  const auto operands = ir::operands(node);
  if (match != nullptr && match->shares_observer && !operands.empty()) add(model, operands.front(), masks);
}

}  // namespace

bool has_no_tensor_arguments(const Node* node) {
  if (ir::is_module_call(node) || node->kind() == c10::prim::Param || node->kind() == c10::prim::GetAttr)
    return false;
  const bool is_size = node->kind() == c10::prim::NumToTensor;  // in traced files
  if (is_size || std::ranges::none_of(node->outputs(), ir::holds_tensor)) return true;
  return node->kind().is_aten() && std::ranges::none_of(ir::operands(node), [](const Value* operand) {
           return ir::holds_tensor(operand) &&
                  (ir::is_constant(operand) || !has_no_tensor_arguments(operand->node()));
         });
}

bool handles_containers(const Node* node) {
  constexpr std::array<std::string_view, 16> kNames{
      "__getitem__", "_set_item", "append", "extend", "insert", "pop",   "clear", "list",
      "dict",        "copy",      "keys",   "values", "items",  "slice", "get",   "setdefault"};
  if (!node->kind().is_aten() || node->inputs().empty()) return false;
  const auto kind = node->input(0)->type()->kind();
  const bool reads_container = kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType;
  return reads_container && std::ranges::find(kNames, node->kind().toUnqualString()) != kNames.end();
}

Masks find_masks(const Model& model) {
  Masks masks;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() != c10::aten::masked_fill) continue;
    for (std::size_t i = 1; i < node->inputs().size() && i < 3; ++i) add(model, node->input(i), masks);
  }
  return masks;
}

}  // namespace tsq::passes
