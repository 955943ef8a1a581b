// view and as_strided ask for the layout that the float operators returned.

#include "passes/lower/view_any_layout.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/arguments.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

const c10::Symbol kAsStrided = c10::Symbol::fromQualString("aten::as_strided");
const c10::Symbol kContiguous = c10::Symbol::fromQualString("aten::contiguous");

bool is_view(const Node* node) {
  // view(dtype) reads bytes anew.
  if (node->kind() == c10::aten::view) return operators::argument_named(node, "size") != nullptr;
  return node->kind() == c10::aten::view_as || node->kind() == kAsStrided;
}

Value* contiguous_after(Model& gm, Value* value) {
  const torch::jit::WithInsertPoint guard(value->node()->next());
  Value* format = gm.graph->insertConstant(static_cast<int64_t>(at::MemoryFormat::Contiguous));
  Node* made = gm.graph->insertNode(gm.graph->create(kContiguous, {value, format}, 1));
  ir::take_scope(made, value->node());
  return made->output();
}

/// The memory that a view in front of a write is of.
Value* memory_of(Node* view) {
  Value* value = view->input(0);
  while (ir::stays_float(value->node())) {
    const auto operands = ir::operands(value->node());
    if (operands.empty() || operands.front()->type()->kind() != c10::TypeKind::TensorType) break;
    value = operands.front();
  }
  return value;
}

void make_memory_contiguous(Model& gm, Node* view) {
  Value* memory = memory_of(view);
  const Node* maker = memory->node();
  if (memory->type()->kind() != c10::TypeKind::TensorType) return;
  const bool is_given = maker->kind() == c10::prim::Param || maker->kind() == c10::prim::GetAttr ||
                        maker->kind() == c10::prim::Constant;
  if (is_given || maker->kind() == kContiguous) return;
  Value* made = contiguous_after(gm, memory);
  memory->replaceAllUsesAfterNodeWith(made->node(), made);
}

/// reshape returns a view where it can.
void make_reshape(Model& gm, Node* view) {
  if (view->kind() == c10::aten::view) {
    ir::reshape_for_view(gm, view);
  } else if (view->kind() == c10::aten::view_as) {
    Node* made = gm.graph->create(c10::aten::reshape_as, view->inputs(), 1);
    made->insertBefore(view);
    made->output()->copyMetadata(view->output());
    ir::take_scope(made, view);
    view->output()->replaceAllUsesWith(made->output());
    view->destroy();
  } else {
    Value* format = ir::constant_before(gm, view, static_cast<int64_t>(at::MemoryFormat::Contiguous));
    view->replaceInput(0, ir::insert_before(gm, view, "aten::contiguous", {view->input(0), format}));
  }
}

bool gives_quantized(const Node* node) {
  const std::string_view kind = node->kind().toQualString();
  return kind.starts_with("quantized::") || kind.starts_with("onednn::") || kind == "aten::dequantize";
}

}  // namespace

void view_any_layout(Model& gm) {
  const auto nodes = ir::nodes_in_order(*gm.graph);
  if (std::ranges::none_of(nodes, gives_quantized)) return;
  for (Node* node : nodes) {
    if (!is_view(node)) continue;
    if (ir::stays_float(node)) {
      make_memory_contiguous(gm, node);
    } else {
      make_reshape(gm, node);
    }
  }
}

}  // namespace tsq::passes
