// Masks, sizes and containers have no range: they are not observed.

#include "passes/observe/masks.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/analysis.h"
#include "passes/context/names.h"

namespace tsq::passes {
namespace {

bool shares_observer(const Model& model, const Node* node) {
  const ir::NodeRecord* record = ir::record_of(model, node);
  return record != nullptr && record->match && model.matches[*record->match].shares_observer;
}

void add(const Model& model, const Value* value, Masks& masks) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::Constant) return;
  if (node->kind() == c10::prim::Param) {
    masks.inputs.insert(value);
    return;
  }
  masks.nodes.insert(node);
  const auto operands = ir::operands(node);
  if (shares_observer(model, node) && !operands.empty()) add(model, operands.front(), masks);
}

}  // namespace

bool has_no_tensor_arguments(const Node* node) {
  if (ir::is_module_call(node) || node->kind() == c10::prim::Param || node->kind() == c10::prim::GetAttr)
    return false;
  if (std::ranges::none_of(node->outputs(), [](const Value* v) { return ir::holds_tensor(v); })) return true;
  if (node->kind() == c10::prim::NumToTensor) return true;  // a size, in traced files
  if (!node->kind().is_aten()) return false;
  return std::ranges::none_of(ir::operands(node), [](const Value* v) {
    if (!ir::holds_tensor(v)) return false;
    return ir::is_constant(v) || !has_no_tensor_arguments(v->node());
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
