// view and as_strided ask for the layout that the float operators returned.

#include <ATen/ATen.h>

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/arguments.h"
#include "passes/pack/passes.h"

namespace tsq::passes {
namespace {

const c10::Symbol kAsStrided = c10::Symbol::fromQualString("aten::as_strided");
const c10::Symbol kContiguous = c10::Symbol::fromQualString("aten::contiguous");

bool is_view(const Node* node) {
  // view(dtype) reads bytes anew.
  if (node->kind() == c10::aten::view) return operators::argument_named(node, "size") != nullptr;
  return node->kind() == c10::aten::view_as || node->kind() == kAsStrided;
}

bool is_written(const Model& model, const Node* node) {
  return ir::placement_of(model, node) == ir::Placement::Written;
}

Value* contiguous_before(Node* before, Value* value) {
  Value* format = ir::constant_before(before, static_cast<int64_t>(at::MemoryFormat::Contiguous));
  return ir::insert_before(before, "aten::contiguous", {value, format});
}

/// The memory that a view in front of a write is of.
Value* memory_of(const Model& model, Node* view) {
  Value* value = view->input(0);
  while (is_written(model, value->node())) {
    const auto operands = ir::operands(value->node());
    if (operands.empty() || operands.front()->type()->kind() != c10::TypeKind::TensorType) break;
    value = operands.front();
  }
  return value;
}

/// False where it is given from outside, or is contiguous.
bool make_memory_contiguous(Model& model, Node* view) {
  Value* memory = memory_of(model, view);
  Node* maker = memory->node();
  const bool is_given = maker->kind() == c10::prim::Param || maker->kind() == c10::prim::GetAttr ||
                        maker->kind() == c10::prim::Constant;
  if (is_given || maker->kind() == kContiguous || memory->type()->kind() != c10::TypeKind::TensorType)
    return false;
  Value* made = contiguous_before(maker->next(), memory);
  ir::take_scope(made->node(), maker);
  memory->replaceAllUsesAfterNodeWith(made->node(), made);
  return true;
}

/// reshape returns a view where it can.
void make_reshape(Model& model, Node* view) {
  if (view->kind() == c10::aten::view) {
    ir::reshape_for_view(model, view);
  } else if (view->kind() == c10::aten::view_as) {
    Value* made = ir::insert_before(view, "aten::reshape_as", view->inputs().vec());
    made->copyMetadata(view->output());
    ir::take_scope(made->node(), view);
    ir::take_record(made->node(), view);
    view->output()->replaceAllUsesWith(made);
    view->destroy();
  } else {
    view->replaceInput(0, contiguous_before(view, view->input(0)));
  }
}

bool gives_quantized(const Node* node) {
  const std::string_view kind = node->kind().toQualString();
  return kind.starts_with("quantized::") || kind.starts_with("onednn::") || kind == "aten::dequantize";
}

}  // namespace

bool view_any_layout(Model& model, const PassContext& /*context*/) {
  const auto nodes = ir::nodes_in_order(*model.graph);
  if (std::ranges::none_of(nodes, gives_quantized)) return false;
  bool has_changed = false;
  for (Node* node : nodes) {
    if (!is_view(node)) continue;
    if (is_written(model, node)) {
      has_changed = make_memory_contiguous(model, node) || has_changed;
    } else {
      make_reshape(model, node);
      has_changed = true;
    }
  }
  return has_changed;
}

}  // namespace tsq::passes
