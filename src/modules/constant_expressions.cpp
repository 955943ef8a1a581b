#include "modules/constant_expressions.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>

namespace tsq::modules {
namespace {

using ir::Node;
using ir::Value;

/// What exporters wrap constants in.
constexpr std::array kPure{c10::aten::Int,  c10::aten::unbind,  c10::aten::__getitem__, c10::aten::reshape,
                           c10::aten::view, c10::aten::squeeze, c10::aten::flatten,     c10::aten::unsqueeze};

bool is_attribute(const Node* node) {
  return node->kind() == c10::prim::GetAttr && node->input(0) == node->owningGraph()->inputs().at(0);
}

bool is_only_read(const Value* value);

/// Whether a use neither writes a value nor hands it on to somebody who may.
bool only_reads(const torch::jit::Use& use) {
  const Node* user = use.user;
  const bool is_list = user->kind() == c10::prim::ListUnpack || user->kind() == c10::prim::ListConstruct;
  const c10::FunctionSchema* schema = user->kind().is_aten() ? user->maybeSchema() : nullptr;
  if (!is_list && (schema == nullptr || schema->is_mutable())) return false;
  const bool may_alias = is_list || std::ranges::any_of(schema->returns(), [](const c10::Argument& result) {
                           return result.alias_info() != nullptr;
                         });
  return !may_alias || std::ranges::all_of(user->outputs(), is_only_read);
}

bool is_only_read(const Value* value) { return std::ranges::all_of(value->uses(), only_reads); }

}  // namespace

ConstantExpressions::ConstantExpressions(const ir::GraphModule& gm) : gm_(gm) {
  for (const Node* node : ir::nodes_in_order(*gm.graph)) {
    const bool is_set = node->kind() == c10::prim::SetAttr;
    if (is_set || (is_attribute(node) && !is_only_read(node->output())))
      written_.insert(node->s(c10::attr::name));
  }
  for (const ir::Method& method : gm.methods) {
    for (const Node* node : ir::nodes_in_order(*method.graph)) {
      if (node->kind() == c10::prim::SetAttr || node->kind() == c10::prim::GetAttr)
        written_.insert(node->s(c10::attr::name));
    }
  }
}

std::optional<c10::IValue> ConstantExpressions::value_of(const Value* value) const {
  if (auto constant = torch::jit::toIValue(value)) return constant;
  const Node* node = value->node();
  if (!is_attribute(node)) return computed(node, value->offset());
  const std::string& name = node->s(c10::attr::name);
  return written_.contains(name) ? std::nullopt : std::optional(gm_.attributes.attr(name));
}

std::optional<c10::IValue> ConstantExpressions::computed(const Node* node, std::size_t output) const {
  const bool is_pure = std::ranges::find(kPure, node->kind()) != kPure.end();
  if (!is_pure && node->kind() != c10::prim::ListConstruct && node->kind() != c10::prim::ListUnpack)
    return std::nullopt;
  torch::jit::Stack stack;
  for (const Value* input : node->inputs()) {
    auto constant = value_of(input);
    if (!constant) return std::nullopt;
    stack.push_back(std::move(*constant));
  }
  if (node->kind() == c10::prim::ListConstruct) {
    c10::List<int64_t> numbers;
    for (const c10::IValue& element : stack) {
      if (!element.isInt()) return std::nullopt;
      numbers.push_back(element.toInt());
    }
    return numbers;
  }
  if (node->kind() == c10::prim::ListUnpack) {
    const auto list = stack.front().toList();
    return output < list.size() ? std::optional<c10::IValue>(list.get(output)) : std::nullopt;
  }
  node->getOperation()(stack);
  return stack.back();
}

}  // namespace tsq::modules
