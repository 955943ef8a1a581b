// Tracing and freezing write some things in a form that no one wrote in Python: here they get the plain one
// back.
//   aten::_convolution(x, w, b, …, transposed, …)   →   aten::conv2d(x, w, b, …)
//   aten::Int(prim::NumToTensor(n))                 →   n
//   aten::Int(aten::floor_divide(NumToTensor(n), 2))→   aten::floordiv(n, 2)
//   aten::mul(x, prim::Constant[value={0.5}])       →   aten::mul(x, 0.5)
//   aten::add(aten::matmul(x, w.t()), b)            →   aten::linear(x, w, b), after optimize_for_inference
//   prim::Constant[value=<Tensor>]                  →   an attribute of the graph module

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/entries.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/origin.h"
#include "passes/context/nodes.h"
#include "passes/plain/passes.h"

namespace tsq::passes {
namespace {

std::size_t length_of(const Value* list) {
  if (list->node()->kind() == c10::prim::ListConstruct) return list->node()->inputs().size();
  const auto constant = torch::jit::toIValue(list);
  return constant && constant->isIntList() ? constant->toIntVector().size() : 0;
}

void replace(Model& model, Node* node, const std::string& kind, const std::vector<Value*>& inputs) {
  Value* made = ir::Rewriter(model, node).op(kind.c_str(), inputs, node->output()->type());
  if (node->output()->hasDebugName()) made->setDebugName(node->output()->debugNameBase());
  replace_node(node, made);
}

/// aten::_convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, …)
bool restore_convolution(Model& model, Node* node) {
  const auto transposed = ir::flag_constant(node->input(6));
  const std::size_t dims = length_of(node->input(3));
  if (!transposed || dims < 1 || dims > 3) return false;
  std::vector<Value*> inputs = node->inputs().slice(0, 5).vec();
  if (*transposed) {
    inputs.insert(inputs.end(), {node->input(7), node->input(8), node->input(5)});
  } else {
    inputs.insert(inputs.end(), {node->input(5), node->input(8)});
  }
  replace(model, node, fmt::format("aten::conv{}{}d", *transposed ? "_transpose" : "", dims), inputs);
  return true;
}

/// aten::_convolution_mode(input, weight, bias, stride, "same", dilation, groups)
bool restore_convolution_with_word(Model& model, Node* node) {
  const std::size_t dims = length_of(node->input(3));
  if (dims < 1 || dims > 3) return false;
  replace(model, node, fmt::format("aten::conv{}d", dims), node->inputs().vec());
  return true;
}

/// A number that tracing has made a tensor without dimensions. Python's numbers are doubles and longs;
/// tensors of a model hardly ever are.
std::optional<c10::IValue> traced_constant(const Value* value) {
  const auto constant = torch::jit::toIValue(value);
  if (!constant || !constant->isTensor()) return std::nullopt;
  const at::Tensor& tensor = constant->toTensor();
  if (!tensor.defined() || tensor.dim() != 0) return std::nullopt;
  if (tensor.scalar_type() == c10::ScalarType::Double) return tensor.item<double>();
  if (tensor.scalar_type() == c10::ScalarType::Long) return tensor.item<int64_t>();
  return std::nullopt;
}

/// Python's `n += 1` writes into the tensor that the number has become.
bool is_written(const Value* value) {
  return std::any_of(value->uses().begin(), value->uses().end(), [](const torch::jit::Use& use) {
    const c10::FunctionSchema* schema = use.user->maybeSchema();
    return schema != nullptr && schema->is_mutable();
  });
}

/// A size divided by a number above zero, as torch.nn writes the width of a head: rounded towards zero is
/// rounded down. Null for another node.
Value* quotient_of_size(Model& model, Node* node, Node* place) {
  if (node->kind() != c10::aten::div || node->inputs().size() != 3) return nullptr;
  const Node* made = node->input(0)->node();
  const auto mode = torch::jit::toIValue(node->input(2));
  const auto divisor = ir::whole_number_constant(node->input(1));
  const bool is_size = made->kind() == c10::prim::NumToTensor &&
                       made->input(0)->node()->kind() == c10::aten::size && !is_written(node->input(0));
  if (!is_size || !mode || !mode->isString() || mode->toStringRef() != "trunc" || divisor.value_or(0) <= 0)
    return nullptr;
  return ir::Rewriter(model, place, node)
      .op("aten::floordiv", {made->input(0), ir::constant_before(place, *divisor)}, c10::IntType::get());
}

/// The whole number that a traced tensor stands for, computed before `place`; null where there is none.
Value* whole_number(Model& model, Value* tensor, Node* place) {
  // What computes with whole numbers alike, as tensors and as numbers.
  static constexpr std::array kOfNumbers{
      std::pair{c10::aten::add, "aten::add"}, std::pair{c10::aten::sub, "aten::sub"},
      std::pair{c10::aten::mul, "aten::mul"}, std::pair{c10::aten::floor_divide, "aten::floordiv"},
      std::pair{c10::aten::remainder, "aten::remainder"}};
  if (const auto constant = traced_constant(tensor); constant && constant->isInt())
    return ir::constant_before(place, *constant);
  if (tensor->type()->kind() == c10::TypeKind::IntType) return tensor;
  Node* node = tensor->node();
  if (is_written(tensor)) return nullptr;
  if (node->kind() == c10::prim::NumToTensor)
    return node->input(0)->type()->kind() == c10::TypeKind::IntType ? node->input(0) : nullptr;
  if (Value* quotient = quotient_of_size(model, node, place)) return quotient;
  const auto* const found = find_entry(kOfNumbers, node->kind());
  if (found == nullptr || node->inputs().size() < 2) return nullptr;
  if (node->inputs().size() > 2 && ir::whole_number_constant(node->input(2)) != 1) return nullptr;
  Value* left = whole_number(model, node->input(0), place);
  Value* right = left == nullptr ? nullptr : whole_number(model, node->input(1), place);
  if (right == nullptr) return nullptr;
  return ir::Rewriter(model, place, node).op(found->second, {left, right}, c10::IntType::get());
}

/// The number inside Int(NumToTensor(n)), which tracing puts around sizes.
bool restore_size(Model& model, Node* node) {
  if (node->input(0)->type()->kind() != c10::TypeKind::TensorType) return false;
  Value* number = whole_number(model, node->input(0), node);
  if (number == nullptr) return false;
  node->output()->replaceAllUsesWith(number);
  return true;
}

bool is_arithmetic(const Node* node) {
  constexpr std::array kArithmetic{c10::aten::add,  c10::aten::sub,  c10::aten::mul,  c10::aten::div,
                                   c10::aten::add_, c10::aten::sub_, c10::aten::mul_, c10::aten::div_};
  return std::find(kArithmetic.begin(), kArithmetic.end(), node->kind()) != kArithmetic.end();
}

/// Traced `x + 2.0` adds a tensor; to FX, which traces the same source, it is a number.
bool restore_number(Node* node) {
  const Node* made = node->input(1)->node();
  if (made->kind() == c10::prim::NumToTensor && !is_written(node->input(1))) {
    node->replaceInput(1, made->input(0));
    return true;
  }
  const auto number = traced_constant(node->input(1));
  if (!number) return false;
  node->replaceInput(1, ir::constant_before(node, *number));
  return true;
}

/// The constant tensor that has become an attribute; undefined for the model's own attributes.
at::Tensor constant_tensor(const Model& model, const Value* value) {
  const std::string* name = ir::attribute_read(model, value);
  if (name == nullptr || model.state.contains(*name) || model.attributes.at(*name).is_parameter) return {};
  return ir::held_tensor(model, value);
}

/// The addition of a bias to a product, that alone reads it; null where there is none.
Node* bias_addition(const Model& model, const Node* product, int64_t features) {
  Node* addition = ir::only_reader(product);
  if (addition == nullptr || addition->kind() != c10::aten::add || addition->input(0) != product->output())
    return nullptr;
  const at::Tensor bias = constant_tensor(model, addition->input(1));
  const bool fits = bias.defined() && bias.dim() == 1 && bias.numel() == features;
  return fits && ir::whole_number_constant(addition->input(2)) == 1 ? addition : nullptr;
}

/// torch.jit.optimize_for_inference makes matmul(x, w.t()) + b of a linear layer, and keeps no source
/// position of it.
bool restore_linear(Model& model, Node* product) {
  const at::Tensor transposed = constant_tensor(model, product->input(1));
  if (!transposed.defined() || transposed.dim() != 2 ||
      ir::origin_of(product).writer != ir::Origin::Writer::Unknown)
    return false;
  Node* addition = bias_addition(model, product, transposed.size(1));
  Node* last = addition == nullptr ? product : addition;
  Value* weight = ir::attribute_before(model, last, "constant", transposed.t().contiguous());
  Value* bias = addition == nullptr ? ir::constant_before(last, c10::IValue()) : addition->input(1);
  replace(model, last, "aten::linear", {product->input(0), weight, bias});
  return true;
}

/// A constant with dimensions is data of the model: FX would see an attribute.
bool lift_tensor(Model& model, Node* node) {
  if (node->output()->type()->kind() != c10::TypeKind::TensorType || !node->hasAttribute(c10::attr::value))
    return false;
  const at::Tensor tensor = node->t(c10::attr::value);
  if (!tensor.defined() || tensor.dim() == 0) return false;
  node->output()->replaceAllUsesWith(ir::attribute_before(model, node, "constant", tensor));
  return true;
}

bool restore(Model& model, Node* node) {
  switch (node->kind()) {
    case c10::aten::_convolution:
      return restore_convolution(model, node);
    case c10::aten::_convolution_mode:
      return restore_convolution_with_word(model, node);
    case c10::aten::Int:
      return restore_size(model, node);
    case c10::prim::Constant:
      return lift_tensor(model, node);
    default:
      return is_arithmetic(node) && restore_number(node);
  }
}

}  // namespace

bool untrace(Model& model, const PassContext& /*context*/) {
  bool changed = false;
  std::vector<Node*> products;
  for (Node* node : ir::LiveNodes(*model.graph)) {
    if (node->kind() == c10::aten::matmul) products.push_back(node);
    changed |= restore(model, node);
  }
  for (Node* product : products) changed |= restore_linear(model, product);
  return ir::eliminate_dead_code(*model.graph) || changed;
}

}  // namespace tsq::passes
