// The value of an `if` whose branches are quantized alike stays quantized.

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "ir/value_numbers.h"
#include "operators/no_value.h"
#include "passes/convert/passes.h"

namespace tsq::passes {
namespace {

using ir::kDequantize;
using ir::kQuantize;

/// Scale, zero point and dtype of a quantized value, where they are constants.
std::optional<std::vector<c10::IValue>> qparams_of(const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::If) {
    for (const torch::jit::Block* block : node->blocks()) {
      const Value* returned = block->outputs()[value->offset()];
      if (!ir::is_no_value(returned)) return qparams_of(returned);
    }
    return std::nullopt;
  }
  if (node->kind() != kQuantize) return std::nullopt;
  std::vector<c10::IValue> qparams;
  for (std::size_t i = 1; i < node->inputs().size(); ++i) {
    const auto constant = torch::jit::toIValue(node->input(i));
    if (!constant) return std::nullopt;
    qparams.push_back(*constant);
  }
  return qparams;
}

/// Whether all that read a value compute with it, none passing it on.
bool is_read_here(const Value* value) {
  return std::all_of(value->uses().begin(), value->uses().end(), [](const torch::jit::Use& use) {
    return use.user->kind() != c10::prim::Return && use.user->kind() != c10::prim::Loop;
  });
}

bool is_quantized_alike(Node* branches, std::size_t index) {
  if (operators::may_be_no_value(branches->output(index)) && !is_read_here(branches->output(index)))
    return false;
  std::optional<std::vector<c10::IValue>> common;
  for (const torch::jit::Block* block : branches->blocks()) {
    const Value* returned = block->outputs()[index];
    if (ir::is_no_value(returned)) continue;
    if (returned->node()->kind() != kDequantize) return false;
    const auto qparams = qparams_of(returned->node()->input(0));
    if (!qparams || (common && *common != *qparams)) return false;
    common = qparams;
  }
  return common.has_value();
}

void dequantize_after(Node* branches, std::size_t index) {
  for (torch::jit::Block* block : branches->blocks()) {
    const Value* returned = block->outputs()[index];
    if (!ir::is_no_value(returned)) block->replaceOutput(index, returned->node()->input(0));
  }
  Value* joined = branches->output(index);
  const auto dequantize_before = [&](Node* before) {
    Value* made = ir::insert_before(before, "aten::dequantize", {joined});
    ir::take_scope(made->node(), branches);
    return made;
  };
  if (!operators::may_be_no_value(joined)) {
    Value* made = dequantize_before(branches->next());
    ir::take_number(made, joined);
    ir::drop_number(joined);  // it is quantized now
    joined->replaceAllUsesAfterNodeWith(made->node(), made);
    return;
  }
  ir::drop_number(joined);
  for (const torch::jit::Use& use : std::vector(joined->uses()))
    use.user->replaceInput(use.offset, dequantize_before(use.user));
}

}  // namespace

bool dequantize_after_branches(ir::Model& model, const PassContext&) {
  bool has_changed = false;
  auto nodes = ir::nodes_in_order(*model.graph);
  std::reverse(nodes.begin(), nodes.end());  // inner ones first
  for (Node* node : nodes) {
    if (node->kind() != c10::prim::If) continue;
    for (std::size_t i = 0; i < node->outputs().size(); ++i) {
      if (!is_quantized_alike(node, i)) continue;
      dequantize_after(node, i);
      has_changed = true;
    }
  }
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
