#include "passes/lower/program/float_values.h"

#include <algorithm>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "operators/arguments.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"

namespace tsq::passes {
namespace {

using ir::Node;
using ir::Value;
using operators::is_one_of;

/// Looks at neighbours of neighbours so far away.
constexpr int kDistance = 12;

/// Operators that take floating-point tensors alone; their first operand and their result are such.
bool takes_floats(const ir::Model& model, const Node* node) {
  if (ir::is_module_call(node) && ir::weighted_of(ir::call_of(model, node)) != nullptr) return true;
  return is_one_of(model, node,
                   {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
                    "linear", "layer_norm", "group_norm", "batch_norm", "instance_norm", "gelu", "softmax",
                    "log_softmax", "avg_pool2d", "scaled_dot_product_attention", "silu", "hardswish", "elu"});
}

/// Whether a recurrent layer reads a value, as its input or, perhaps in a tuple, as a state.
bool is_read_by_recurrent(const ir::Model& model, const Value* value) {
  return std::ranges::any_of(ir::users(value), [&](const Node* user) {
    if (user->kind() == c10::prim::TupleConstruct) return is_read_by_recurrent(model, user->output());
    return ir::is_module_call(user) && !ir::call_of(model, user).recurrent_qparams.empty();
  });
}

/// Whether the result has the dtype of the first operand: of arithmetic, where no operand of another dtype
/// makes it wider.
bool keeps_dtype(const ir::Model& model, const Node* node) {
  if (is_one_of(model, node, {"outer", "ger", "cos", "sin", "triu", "tril"})) return true;
  const auto* row = operators::traits_of(model, node);
  return row != nullptr && row->values != operators::Values::Converted &&
         (operators::moves_values(row) || operators::is_elementwise(row) ||
          row->has(operators::ElementwiseOfTwo) || row->values != operators::Values::Computed);
}

bool is_float_below(const ir::Model& model, const Value* value, int distance) {
  if (distance == 0) return false;
  return std::ranges::any_of(ir::users(value), [&](const Node* user) {
    const auto operands = ir::operands(user);
    if (operands.empty() || operands.front() != value) return false;
    if (user->kind() == ir::kQuantize || takes_floats(model, user)) return true;
    return operators::moves_values(operators::traits_of(model, user)) && user->outputs().size() == 1 &&
           is_float_below(model, user->output(), distance - 1);
  });
}

bool is_float_above(const ir::Model& model, const Value* value, int distance);

/// Whether an operator that is not told a dtype makes a tensor of the default one, which is float.
bool has_default_dtype(const Node* node) {
  if (node->kind() == c10::aten::zeros || node->kind() == c10::aten::ones) return true;
  const Value* number = operators::argument_named(node, "fill_value");
  return node->kind() == c10::aten::full && number != nullptr &&
         number->type()->kind() == c10::TypeKind::FloatType;
}

/// Whether a conversion, or an operator that makes a tensor, is asked for floats: by name, or for the dtype
/// of a float tensor.
bool is_asked_for_floats(const ir::Model& model, const Node* node, int distance) {
  if (!is_one_of(model, node,
                 {"to", "type_as", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like"}))
    return false;
  if (const Value* dtype = operators::argument_named(node, "dtype")) {
    if (dtype->mustBeNone()) return has_default_dtype(node);
    if (const auto known = ir::dtype_constant(dtype)) return *known == c10::ScalarType::Float;
    return distance > 0 && dtype->node()->kind() == c10::prim::dtype &&
           is_float_above(model, dtype->node()->input(0), distance - 1);
  }
  const Value* other = operators::argument_named(node, "other");
  return distance > 0 && other != nullptr && is_float_above(model, other, distance - 1);
}

/// Whether an if has floats at the ends of all its branches.
bool has_float_branches(const ir::Model& model, const Value* value, int distance) {
  if (distance == 0 || value->node()->kind() != c10::prim::If) return false;
  return std::ranges::all_of(value->node()->blocks(), [&](const torch::jit::Block* branch) {
    return is_float_above(model, branch->outputs()[value->offset()], distance - 1);
  });
}

bool is_float_above(const ir::Model& model, const Value* value, int distance) {
  if (const auto type = value->type()->cast<c10::TensorType>(); type && type->scalarType())
    return *type->scalarType() == c10::ScalarType::Float;
  if (const at::Tensor held = ir::held_tensor(model, value); held.defined())
    return held.scalar_type() == c10::ScalarType::Float;
  const Node* node = value->node();
  if (node->kind() == ir::kDequantize || takes_floats(model, node)) return true;
  if (is_asked_for_floats(model, node, distance) || has_float_branches(model, value, distance)) return true;
  if (ir::is_module_call(node) && ir::call_of(model, node).embedding) return true;
  if (distance == 0 || !keeps_dtype(model, node)) return false;
  const auto operands = ir::operands(node);
  return !operands.empty() && (is_float_above(model, operands.front(), distance - 1) ||
                               is_float_below(model, operands.front(), distance - 1));
}

bool makes_truths(const ir::Model& model, const Node* node) {
  return is_one_of(model, node,
                   {"eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or",
                    "logical_xor", "isnan", "isinf", "isfinite"});
}

/// Whether an operator takes the value for a mask, by itself or moved.
bool is_mask_below(const ir::Model& model, const Value* value, int distance) {
  if (distance == 0) return false;
  return std::ranges::any_of(ir::users(value), [&](const Node* user) {
    const auto operands = ir::operands(user);
    if (is_one_of(model, user, {"masked_fill"})) return operands.size() > 1 && operands[1] == value;
    const bool is_first = !operands.empty() && operands.front() == value;
    if (is_one_of(model, user, {"where"})) return is_first;
    return is_first && operators::moves_values(operators::traits_of(model, user)) &&
           user->outputs().size() == 1 && is_mask_below(model, user->output(), distance - 1);
  });
}

bool are_truths_above(const ir::Model& model, const Value* value, int distance) {
  if (const auto type = value->type()->cast<c10::TensorType>(); type && type->scalarType())
    return *type->scalarType() == c10::ScalarType::Bool;
  const Node* node = value->node();
  if (makes_truths(model, node)) return true;
  // Of truths, bits are truths as well.
  const bool keeps = operators::moves_values(operators::traits_of(model, node)) ||
                     is_one_of(model, node, {"bitwise_not", "bitwise_and", "bitwise_or"});
  if (distance == 0 || !keeps) return false;
  const auto operands = ir::operands(node);
  return !operands.empty() && (are_truths_above(model, operands.front(), distance - 1) ||
                               is_mask_below(model, operands.front(), distance - 1));
}

}  // namespace

bool write_known_dtypes(ir::Model& model) {
  const auto is_known = [&](const Node* node) {
    return node->kind() == c10::prim::dtype && is_float_tensor(model, node->input(0));
  };
  return change_nodes(model, is_known, [](Node* node) {
    replace_node(node, ir::constant_before(node, static_cast<std::int64_t>(c10::ScalarType::Float)));
  });
}

bool are_truth_values(const ir::Model& model, const Value* value) {
  return value->type()->isSubtypeOf(*c10::TensorType::get()) &&
         (are_truths_above(model, value, kDistance) || is_mask_below(model, value, kDistance));
}

bool is_float_tensor(const ir::Model& model, const Value* value) {
  return value->type()->isSubtypeOf(*c10::TensorType::get()) &&
         (is_float_above(model, value, kDistance) || is_float_below(model, value, kDistance) ||
          is_read_by_recurrent(model, value));
}

}  // namespace tsq::passes
