// Tensors that a model makes of constants become attributes.

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/literal.h"
#include "passes/plain/passes.h"

namespace tsq::passes {
namespace {

/// What makes a tensor of numbers, the same each time.
constexpr std::array<std::string_view, 11> kFactories{"tensor", "scalar_tensor", "full",        "ones",
                                                      "zeros",  "arange",        "linspace",    "logspace",
                                                      "eye",    "tril_indices",  "triu_indices"};
/// What makes another tensor of it.
constexpr std::array<std::string_view, 15> kPure{"reshape", "view", "unsqueeze", "squeeze", "mul",
                                                 "div",     "add",  "sub",       "to",      "expand",
                                                 "flatten", "neg",  "detach",    "lift",    "lift_fresh"};
/// Who reads it and writes nothing.
constexpr std::array<std::string_view, 9> kBinary{"add", "sub",     "rsub",    "mul",   "div",
                                                  "pow", "maximum", "minimum", "matmul"};

template <std::size_t Size>
bool is_one_of(const Node* node, const std::array<std::string_view, Size>& names) {
  return node->kind().is_aten() && std::ranges::find(names, node->kind().toUnqualString()) != names.end();
}

/// Traces hold their literals as attributes that are neither parameters nor state.
std::optional<c10::IValue> constant_of_trace(const Model& model, const Node* get) {
  const std::string& name = get->s(c10::attr::name);
  if (get->input(0) != model.graph->inputs().at(0) || model.state.contains(name)) return std::nullopt;
  c10::IValue held = model.attributes.attr(name);
  return held.isTensor() && !held.toTensor().requires_grad() ? std::optional(held) : std::nullopt;
}

/// What a value always is; empty where it is not made of constants alone.
std::optional<c10::IValue> constant(const Model& model, const Value* value) {
  if (auto known = torch::jit::toIValue(value)) return known;
  const Node* node = value->node();
  if (node->kind() == c10::prim::GetAttr) return constant_of_trace(model, node);
  const bool is_list = node->kind() == c10::prim::ListConstruct;
  // Lists that a multiplication repeats, as [1., 2.] * 8.
  const bool repeats = node->kind() == c10::aten::mul && value->type()->kind() == c10::TypeKind::ListType;
  if (!is_list && !repeats && !is_one_of(node, kFactories) && !is_one_of(node, kPure)) return std::nullopt;
  torch::jit::Stack stack;
  for (const Value* input : node->inputs()) {
    auto known = constant(model, input);
    if (!known) return std::nullopt;
    stack.push_back(std::move(*known));
  }
  if (is_list) {
    c10::impl::GenericList list(value->type()->expectRef<c10::ListType>().getElementType());
    for (c10::IValue& element : stack) list.push_back(std::move(element));
    return list;
  }
  node->getOperation()(stack);
  return stack.back();
}

/// Whether a node makes a tensor of which nothing but sums, products and their like are made.
bool makes_literal(const Node* node) {
  return (is_one_of(node, kFactories) || is_one_of(node, kPure)) && node->outputs().size() == 1 &&
         node->output()->type()->kind() == c10::TypeKind::TensorType && !node->output()->uses().empty() &&
         std::ranges::all_of(node->output()->uses(),
                             [](const torch::jit::Use& use) { return is_one_of(use.user, kBinary); });
}

/// Reads no other tensor that is not a constant: the last of its kind.
bool reads_computation(const Model& model, const Node* node) {
  return std::ranges::any_of(node->output()->uses(), [&](const torch::jit::Use& use) {
    return std::ranges::any_of(use.user->inputs(), [&](const Value* input) {
      return ir::holds_tensor(input) && !constant(model, input);
    });
  });
}

}  // namespace

bool fold_literals(Model& model, const PassContext& /*context*/) {
  bool changed = false;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (!makes_literal(node) || !reads_computation(model, node)) continue;
    const auto literal = constant(model, node->output());
    if (!literal || !literal->isTensor()) continue;
    Value* held = ir::attribute_before(model, node, "literal", literal->toTensor().clone());
    held->node()->i_(ir::kLiteral, 1);
    ir::take_scope(held->node(), node);
    node->output()->replaceAllUsesWith(held);
    changed = true;
  }
  return ir::eliminate_dead_code(*model.graph) || changed;
}

}  // namespace tsq::passes
