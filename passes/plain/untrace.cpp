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
#include <vector>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/origin.h"
#include "passes/capture/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

std::size_t length_of(const Value* list) {
  if (list->node()->kind() == c10::prim::ListConstruct) return list->node()->inputs().size();
  const auto constant = torch::jit::toIValue(list);
  return constant && constant->isIntList() ? constant->toIntVector().size() : 0;
}

void replace(Model& gm, Node* node, const std::string& kind, const std::vector<Value*>& inputs) {
  Node* made = gm.graph->create(c10::Symbol::fromQualString(kind), inputs, 1);
  made->insertBefore(node);
  made->output()->setType(node->output()->type());
  if (node->output()->hasDebugName()) made->output()->setDebugName(node->output()->debugNameBase());
  made->setSourceRange(node->sourceRange());
  ir::take_scope(made, node);
  node->output()->replaceAllUsesWith(made->output());
  node->destroy();
}

/// aten::_convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, …)
void restore_convolution(Model& gm, Node* node) {
  const auto transposed = torch::jit::constant_as<bool>(node->input(6));
  const std::size_t dims = length_of(node->input(3));
  if (!transposed || dims < 1 || dims > 3) return;
  std::vector<Value*> inputs{node->input(0), node->input(1), node->input(2), node->input(3), node->input(4)};
  if (*transposed) {
    inputs.insert(inputs.end(), {node->input(7), node->input(8), node->input(5)});
  } else {
    inputs.insert(inputs.end(), {node->input(5), node->input(8)});
  }
  replace(gm, node, fmt::format("aten::conv{}{}d", *transposed ? "_transpose" : "", dims), inputs);
}

/// aten::_convolution_mode(input, weight, bias, stride, "same", dilation, groups)
void restore_convolution_with_word(Model& gm, Node* node) {
  const std::size_t dims = length_of(node->input(3));
  if (dims < 1 || dims > 3) return;
  const std::string kind = fmt::format("aten::conv{}d", dims);
  replace(gm, node, kind, {node->inputs().begin(), node->inputs().end()});
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

/// What computes with whole numbers alike, as tensors and as numbers.
struct NumberOperator {
  c10::Symbol of_tensors;
  c10::Symbol of_numbers;
};

/// The whole number that a traced tensor stands for, computed before `place`; null where there is none.
Value* whole_number(Model& gm, Value* tensor, Node* place) {
  static const std::array kOperators{NumberOperator{c10::aten::add, c10::aten::add},
                                     NumberOperator{c10::aten::sub, c10::aten::sub},
                                     NumberOperator{c10::aten::mul, c10::aten::mul},
                                     NumberOperator{c10::aten::floor_divide, c10::aten::floordiv},
                                     NumberOperator{c10::aten::remainder, c10::aten::remainder}};
  const torch::jit::WithInsertPoint guard(place);
  if (const auto constant = traced_constant(tensor); constant && constant->isInt())
    return gm.graph->insertConstant(*constant);
  if (tensor->type()->kind() == c10::TypeKind::IntType) return tensor;
  Node* node = tensor->node();
  if (is_written(tensor)) return nullptr;
  if (node->kind() == c10::prim::NumToTensor)
    return node->input(0)->type()->kind() == c10::TypeKind::IntType ? node->input(0) : nullptr;
  const auto* const found =
      std::find_if(kOperators.begin(), kOperators.end(),
                   [&](const NumberOperator& each) { return each.of_tensors == node->kind(); });
  if (found == kOperators.end() || node->inputs().size() < 2) return nullptr;
  if (node->inputs().size() > 2 && ir::whole_number_constant(node->input(2)) != 1) return nullptr;
  Value* left = whole_number(gm, node->input(0), place);
  Value* right = left == nullptr ? nullptr : whole_number(gm, node->input(1), place);
  if (right == nullptr) return nullptr;
  Node* made = gm.graph->create(found->of_numbers, {left, right}, 1);
  made->output()->setType(c10::IntType::get());
  made->setSourceRange(node->sourceRange());
  ir::take_scope(made, node);
  gm.graph->insertNode(made);
  return made->output();
}

/// The number inside Int(NumToTensor(n)), which tracing puts around sizes.
void restore_size(Model& gm, Node* node) {
  if (node->input(0)->type()->kind() != c10::TypeKind::TensorType) return;
  if (Value* number = whole_number(gm, node->input(0), node)) node->output()->replaceAllUsesWith(number);
}

bool is_arithmetic(const Node* node) {
  constexpr std::array kOperators{c10::aten::add,  c10::aten::sub,  c10::aten::mul,  c10::aten::div,
                                  c10::aten::add_, c10::aten::sub_, c10::aten::mul_, c10::aten::div_};
  return std::find(kOperators.begin(), kOperators.end(), node->kind()) != kOperators.end();
}

/// Traced `x + 2.0` adds a tensor; to FX, which traces the same source, it is a number.
void restore_number(Model& gm, Node* node) {
  const Node* made = node->input(1)->node();
  if (made->kind() == c10::prim::NumToTensor && !is_written(node->input(1))) {
    node->replaceInput(1, made->input(0));
    return;
  }
  const auto number = traced_constant(node->input(1));
  if (!number) return;
  const torch::jit::WithInsertPoint guard(node);
  node->replaceInput(1, gm.graph->insertConstant(*number));
}

/// The constant tensor that has become an attribute; undefined for the model's own attributes.
at::Tensor constant_tensor(const Model& gm, const Value* value) {
  const Node* node = value->node();
  if (node->kind() != c10::prim::GetAttr || node->input(0) != gm.graph->inputs().at(0)) return {};
  const std::string& name = node->s(c10::attr::name);
  const auto type = gm.attributes.type();
  if (gm.state.contains(name) || type->is_parameter(type->getAttributeSlot(name))) return {};
  const c10::IValue attribute = gm.attributes.attr(name);
  return attribute.isTensor() ? attribute.toTensor() : at::Tensor();
}

/// The addition of a bias to a product, that alone reads it; null where there is none.
Node* bias_addition(const Model& gm, const Node* product, int64_t features) {
  if (product->output()->uses().size() != 1) return nullptr;
  Node* addition = product->output()->uses().front().user;
  if (addition->kind() != c10::aten::add || addition->input(0) != product->output()) return nullptr;
  const at::Tensor bias = constant_tensor(gm, addition->input(1));
  const bool fits = bias.defined() && bias.dim() == 1 && bias.numel() == features;
  return fits && ir::whole_number_constant(addition->input(2)) == 1 ? addition : nullptr;
}

/// torch.jit.optimize_for_inference makes matmul(x, w.t()) + b of a linear layer, and keeps no source
/// position of it.
void restore_linear(Model& gm, Node* product) {
  const at::Tensor transposed = constant_tensor(gm, product->input(1));
  if (!transposed.defined() || transposed.dim() != 2 ||
      ir::origin_of(product).writer != ir::Origin::Writer::Unknown)
    return;
  Node* addition = bias_addition(gm, product, transposed.size(1));
  const torch::jit::WithInsertPoint guard(addition == nullptr ? product : addition);
  Value* weight = ir::insert_attribute(gm, "constant", transposed.t().contiguous(), c10::TensorType::get());
  Value* bias = addition == nullptr ? gm.graph->insertConstant(c10::IValue()) : addition->input(1);
  replace(gm, addition == nullptr ? product : addition, "aten::linear", {product->input(0), weight, bias});
}

/// A constant with dimensions is data of the model: FX would see an attribute.
void lift_tensor(Model& gm, Node* node) {
  if (node->output()->type()->kind() != c10::TypeKind::TensorType || !node->hasAttribute(c10::attr::value))
    return;
  const at::Tensor tensor = node->t(c10::attr::value);
  if (!tensor.defined() || tensor.dim() == 0) return;
  const torch::jit::WithInsertPoint guard(node);
  node->output()->replaceAllUsesWith(ir::insert_attribute(gm, "constant", tensor, c10::TensorType::get()));
}

}  // namespace

void untrace(Model& gm) {
  std::vector<Node*> products;
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (node->kind() == c10::aten::_convolution) {
      restore_convolution(gm, node);
    } else if (node->kind() == c10::aten::_convolution_mode) {
      restore_convolution_with_word(gm, node);
    } else if (node->kind() == c10::aten::Int) {
      restore_size(gm, node);
    } else if (node->kind() == c10::aten::matmul) {
      products.push_back(node);
    } else if (is_arithmetic(node)) {
      restore_number(gm, node);
    } else if (node->kind() == c10::prim::Constant) {
      lift_tensor(gm, node);
    }
  }
  for (Node* product : products) restore_linear(gm, product);
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
