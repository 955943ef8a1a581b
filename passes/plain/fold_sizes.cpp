// Sizes that the parameters of a layer tell become numbers, and so does what is computed of them.
//   b, t, d = linear(x).size(); (d // 4) ** -0.5   →   0.125

#include <torch/csrc/jit/passes/constant_propagation.h>

#include <algorithm>
#include <optional>

#include "ir/constants.h"
#include "ir/edit.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/plain/passes.h"

namespace tsq::passes {
namespace {

/// Looks through so many operators for the layer.
constexpr int kDistance = 12;

/// Of a layer whose result has as many values in a row as its weight says.
std::optional<std::int64_t> last_size_of_layer(const Model& model, const Node* node) {
  const ir::ModuleCall& call = ir::call_of(model, node);
  if (call.embedding && !call.embedding->is_bag) return call.embedding->weight.size(-1);
  if (call.weighted && operators::is_one_of(model, node, {"linear"})) return call.weighted->weight.size(0);
  if (!call.module || !operators::is_one_of(model, node, {"layer_norm"})) return std::nullopt;
  const c10::IValue weight = call.module->attr("weight", c10::IValue());
  return weight.isTensor() ? std::optional(weight.toTensor().size(-1)) : std::nullopt;
}

/// The size of the last dimension of a tensor.
std::optional<std::int64_t> last_size(const Model& model, const Value* value, int distance = kDistance) {
  const Node* node = value->node();
  if (ir::is_module_call(node)) {
    if (const auto size = last_size_of_layer(model, node)) return size;
  }
  const auto* row = operators::traits_of(model, node);
  if (distance == 0 || row == nullptr) return std::nullopt;
  if (row->has(operators::KeepsShape)) return last_size(model, ir::operands(node).front(), distance - 1);
  if (!row->has(operators::ElementwiseOfTwo)) return std::nullopt;
  for (const Value* operand : ir::operands(node)) {
    // The other size is the same, or 1.
    const auto size = ir::holds_tensor(operand) ? last_size(model, operand, distance - 1) : std::nullopt;
    if (size.value_or(1) > 1) return size;
  }
  return std::nullopt;
}

/// The values that are the last size of the tensor which `size`, a call of aten::size, asks for.
std::vector<Value*> last_of(Node* size) {
  constexpr std::int64_t kLast = -1;
  if (size->inputs().size() == 2) {
    const bool is_last = ir::whole_number_constant(size->input(1)) == kLast;
    return is_last ? std::vector{size->output()} : std::vector<Value*>();
  }
  std::vector<Value*> values;
  for (const torch::jit::Use& use : size->output()->uses()) {
    Node* reader = use.user;
    if (reader->kind() == c10::prim::ListUnpack) values.push_back(reader->outputs().back());
    if (reader->kind() == c10::aten::__getitem__ && ir::whole_number_constant(reader->input(1)) == kLast)
      values.push_back(reader->output());
  }
  return values;
}

/// Whether a node computes a number of constants; it is one then.
bool compute_now(Node* node) {
  if (node->kind() == c10::prim::Constant || node->outputs().size() != 1 || node->inputs().empty() ||
      !node->output()->type()->isSubtypeOf(*c10::NumberType::get()))
    return false;
  const auto computed = torch::jit::runNodeIfInputsAreConstant(node);
  if (!computed) return false;
  replace_node(node, ir::constant_before(node, computed->front()));
  return true;
}

}  // namespace

bool fold_sizes(Model& model, const PassContext& /*context*/) {
  const bool has_changed = change_nodes(model, [&](Node* node) {
    if (node->kind() != c10::aten::size) return false;
    const std::vector<Value*> values = last_of(node);
    if (std::ranges::none_of(values, &Value::hasUses)) return false;
    const auto size = last_size(model, node->input(0));
    if (!size) return false;
    for (Value* value : values) value->replaceAllUsesWith(ir::constant_before(node, *size));
    return true;
  });
  if (has_changed) {
    change_nodes(model, compute_now);
    ir::eliminate_dead_code(*model.graph);
  }
  return has_changed;
}

}  // namespace tsq::passes
