#include "operators/constant_expressions.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>
#include <set>

#include "ir/analysis.h"

namespace tsq::operators {
namespace {

using ir::Node;
using ir::Value;

bool is_attribute(const Node* node) {
  return node->kind() == c10::prim::GetAttr && node->input(0) == node->owningGraph()->inputs().at(0);
}

/// What takes containers apart and puts them together; its results share memory with what it reads.
bool handles_containers(const Node* node) {
  constexpr std::array kKinds{c10::prim::ListConstruct, c10::prim::TupleConstruct, c10::prim::ListUnpack,
                              c10::prim::TupleUnpack,   c10::prim::TupleIndex,     c10::prim::ConstantChunk};
  return std::ranges::find(kKinds, node->kind()) != kKinds.end();
}

bool is_operator(const Node* node) {
  return node->kind().is_aten() || std::string_view(node->kind().toQualString()).starts_with("quantized::");
}

/// Modules of torch.nn and functions of torch.nn.functional write nothing but what their name says, and the
/// statistics of norms.
bool calls_library(const ir::Model& model, const Node* node) {
  if (ir::is_module_call(node)) return ir::call_of(model, node).type.name.starts_with("torch.nn.");
  if (node->kind() != c10::prim::CallFunction) return false;
  const auto targets = ir::targets(model, node);
  return !targets.empty() && !targets.front().name.ends_with('_');
}

/// Whether a value lies in memory that somebody may write: tensors, lists and what holds them.
bool has_memory(const Value* value) {
  constexpr std::array kImmutable{c10::TypeKind::IntType,    c10::TypeKind::FloatType,
                                  c10::TypeKind::BoolType,   c10::TypeKind::NumberType,
                                  c10::TypeKind::StringType, c10::TypeKind::NoneType};
  return std::ranges::find(kImmutable, value->type()->kind()) == kImmutable.end();
}

/// torch.zeros and its like: of any size, and nothing that a file says.
bool makes_tensor_of_numbers(const Node* node) {
  if (node->kind() == c10::aten::tensor || node->kind() == c10::aten::scalar_tensor) return false;
  const auto holds_tensor = [](const Value* value) { return ir::holds_tensor(value); };
  return std::ranges::any_of(node->outputs(), holds_tensor) &&
         std::ranges::none_of(node->inputs(), holds_tensor);
}

/// Whether an operator's result follows from its arguments alone.
bool is_pure(const Node* node) {
  if (handles_containers(node) || node->kind() == c10::prim::NumToTensor) return true;
  if (makes_tensor_of_numbers(node)) return false;
  const c10::FunctionSchema* schema =
      is_operator(node) && node->blocks().empty() ? node->maybeSchema() : nullptr;
  return schema != nullptr && !schema->is_mutable() && !node->isNondeterministic();
}

torch::jit::Function& called_function(const Node* node) {
  return *node->input(0)->type()->expectRef<c10::FunctionType>().function();
}

bool is_deterministic(torch::jit::Function& function) {
  const auto nodes = ir::nodes_in_order(*torch::jit::toGraphFunction(function).graph());
  return std::ranges::none_of(nodes, [](const Node* node) {
    return node->isNondeterministic() ||
           (node->kind() == c10::prim::CallFunction && !is_deterministic(called_function(node)));
  });
}

c10::IValue list_of(const Node* node, const torch::jit::Stack& elements) {
  c10::impl::GenericList list(node->output()->type()->expectRef<c10::ListType>().getElementType());
  for (const c10::IValue& element : elements) list.push_back(element);
  return c10::IValue(list);
}

}  // namespace

ConstantExpressions::ConstantExpressions(const ir::Model& model, Observing observing)
    : model_(model), observing_(std::move(observing)) {
  collect_written(*model.graph);
  for (const ir::Method& method : model.methods) {
    if (method.graph) collect_written(*method.graph);
  }
}

void ConstantExpressions::collect_written(const torch::jit::Graph& graph) {
  for (const Node* node : ir::nodes_in_order(const_cast<torch::jit::Graph&>(graph))) {
    const bool is_set = node->kind() == c10::prim::SetAttr;
    if (is_set || (is_attribute(node) && !is_only_read(node->output())))
      written_.insert(node->s(c10::attr::name));
  }
}

/// Whether a use neither writes a value nor hands it on to somebody who may.
bool ConstantExpressions::only_reads(const torch::jit::Use& use) const {
  const Node* user = use.user;
  if (ir::writes_input(user, use.offset)) return false;
  const auto results_are_only_read = [&] {
    return std::ranges::all_of(user->outputs(), [&](const Value* each) { return is_only_read(each); });
  };
  if (handles_containers(user) || ir::is_observer(user) || calls_library(model_, user))
    return results_are_only_read();
  const c10::FunctionSchema* schema = is_operator(user) ? user->maybeSchema() : nullptr;
  if (schema == nullptr) return false;
  const auto* alias =
      use.offset < schema->arguments().size() ? schema->arguments()[use.offset].alias_info() : nullptr;
  if (alias == nullptr) return true;
  return !schema->is_mutable() && results_are_only_read();
}

bool ConstantExpressions::is_only_read(const Value* value) const {
  if (!has_memory(value)) return true;
  // The states of an unrolled loop reach its end on many ways.
  if (const auto found = only_read_.find(value); found != only_read_.end()) return found->second;
  const bool result =
      std::ranges::all_of(value->uses(), [&](const torch::jit::Use& use) { return only_reads(use); });
  only_read_.emplace(value, result);
  return result;
}

std::optional<c10::IValue> ConstantExpressions::value_of(const Value* value) const {
  if (auto constant = torch::jit::toIValue(value)) return constant;
  if (const auto found = known_.find(value); found != known_.end()) return found->second;
  auto result = evaluated(value);
  known_.emplace(value, result);
  return result;
}

std::optional<c10::IValue> ConstantExpressions::evaluated(const Value* value) const {
  const Node* node = value->node();
  if (!is_attribute(node)) return computed(node, value->offset());
  const std::string& name = node->s(c10::attr::name);
  if (written_.contains(name)) return std::nullopt;
  c10::IValue held = model_.attributes.attr(name);
  const bool is_known = held.isTensor() || held.isScalar() || held.isNone() || held.isString();
  return is_known ? std::optional(std::move(held)) : std::nullopt;
}

std::optional<c10::IValue> ConstantExpressions::computed(const Node* node, std::size_t output) const {
  if (observing_ && ir::is_observer(node)) {
    const auto value = value_of(node->input(0));
    return value && value->isTensor() ? std::optional<c10::IValue>(observing_(node, value->toTensor()))
                                      : std::nullopt;
  }
  const bool is_call = node->kind() == c10::prim::CallFunction;
  const bool is_known =
      is_call ? calls_library(model_, node) && is_deterministic(called_function(node)) : is_pure(node);
  if (!is_known || !is_only_read(node->output(output))) return std::nullopt;
  torch::jit::Stack stack;
  for (const Value* input : node->inputs().slice(is_call ? 1 : 0)) {
    auto constant = value_of(input);
    if (!constant) return std::nullopt;
    stack.push_back(std::move(*constant));
  }
  if (node->kind() == c10::prim::ListConstruct) return list_of(node, stack);
  if (node->kind() == c10::prim::ListUnpack) {
    const auto list = stack.front().toList();
    return output < list.size() ? std::optional<c10::IValue>(list.get(output)) : std::nullopt;
  }
  try {
    const c10::NoGradGuard no_grad;
    if (node->kind() == c10::prim::ConstantChunk)
      return stack.front().toTensor().chunk(node->i(c10::attr::chunks), node->i(c10::attr::dim)).at(output);
    if (is_call) return called_function(node)(std::move(stack));
    node->getOperation()(stack);
  } catch (const std::exception&) {
    return std::nullopt;  // it raises when the model runs, then
  }
  return output < stack.size() ? std::optional(stack[output]) : std::nullopt;
}

std::vector<std::string> ConstantExpressions::attributes_of(const Value* value) const {
  std::set<std::string> names;
  std::vector<const Value*> waiting{value};
  std::unordered_set<const Value*> seen;
  while (!waiting.empty()) {
    const Value* each = waiting.back();
    waiting.pop_back();
    if (!seen.insert(each).second) continue;
    if (is_attribute(each->node())) {
      names.insert(each->node()->s(c10::attr::name));
      continue;
    }
    for (const Value* input : each->node()->inputs()) waiting.push_back(input);
  }
  return {names.begin(), names.end()};
}

}  // namespace tsq::operators
