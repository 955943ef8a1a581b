#include "ir/value_numbers.h"

#include <algorithm>

#include "ir/analysis.h"

namespace tsq::ir {
namespace {

constexpr std::int64_t kNoNumber = -1;

bool may_be_tensor(const Value* value) {
  const auto optional = value->type()->cast<c10::OptionalType>();
  const c10::TypePtr type = optional ? optional->getElementType() : value->type();
  return type->kind() == c10::TypeKind::TensorType;
}

bool is_graph_input(const Value* value) {
  return value->node()->kind() == c10::prim::Param && value->node()->owningBlock()->owningNode() == nullptr;
}

/// What a node makes: its outputs, then what its blocks begin with.
std::vector<Value*> made_values(Node* node) {
  std::vector<Value*> values(node->outputs().begin(), node->outputs().end());
  for (Block* block : node->blocks())
    values.insert(values.end(), block->inputs().begin(), block->inputs().end());
  return values;
}

/// A value among those that a node makes.
struct Place {
  Node* node{};
  std::size_t index{};
  std::size_t count{};  ///< of what the node makes
};

/// Of all but inputs of the graph.
Place place_among_made(const Value* value) {
  Node* node = const_cast<Node*>(value->node());
  if (node->kind() == c10::prim::Param) node = node->owningBlock()->owningNode();
  const std::vector<Value*> values = made_values(node);
  const auto found = std::ranges::find(values, value);
  return {.node = node, .index = static_cast<std::size_t>(found - values.begin()), .count = values.size()};
}

/// The numbers of what a node makes; of one whose outputs are not those that were numbered, none.
std::vector<std::int64_t> numbers_at(const Place& place) {
  if (place.node->hasAttribute(kValueNumbers)) {
    const std::vector<std::int64_t>& numbers = place.node->is(kValueNumbers);
    if (numbers.size() == place.count) return numbers;
  }
  return std::vector<std::int64_t>(place.count, kNoNumber);
}

void set_number(const Place& place, std::int64_t number) {
  std::vector<std::int64_t> numbers = numbers_at(place);
  numbers.at(place.index) = number;
  place.node->is_(kValueNumbers, std::move(numbers));
}

}  // namespace

const c10::Symbol kValueNumbers = c10::Symbol::attr("tsq_value_numbers");

bool number_values(Graph& graph) {
  const auto first = static_cast<std::int64_t>(graph.inputs().size());
  std::int64_t next = first;
  for (Node* node : nodes_in_order(graph)) {
    // A constant is known, and what comes out of an observer is what goes in.
    if (node->kind() == c10::prim::Constant || node->kind() == c10::prim::Uninitialized || is_observer(node))
      continue;
    const std::vector<Value*> values = made_values(node);
    if (std::ranges::none_of(values, may_be_tensor)) continue;
    std::vector<std::int64_t> numbers;
    for (const Value* value : values) numbers.push_back(may_be_tensor(value) ? next++ : kNoNumber);
    node->is_(kValueNumbers, std::move(numbers));
  }
  return next != first;
}

std::optional<std::size_t> value_number(const Value* value) {
  if (is_graph_input(value)) return may_be_tensor(value) ? std::optional(value->offset()) : std::nullopt;
  const Place place = place_among_made(value);
  const std::int64_t number = numbers_at(place).at(place.index);
  return number == kNoNumber ? std::nullopt : std::optional(static_cast<std::size_t>(number));
}

void take_number(Value* to, const Value* from) {
  const auto number = value_number(from);
  if (!number || is_graph_input(to) || is_constant(to) || value_number(to)) return;
  set_number(place_among_made(to), static_cast<std::int64_t>(*number));
}

void drop_number(Value* value) {
  if (!is_graph_input(value) && value_number(value)) set_number(place_among_made(value), kNoNumber);
}

std::vector<NumberedValue> numbered_values(Graph& graph) {
  std::vector<NumberedValue> numbered;
  const auto add = [&](Value* value) {
    if (const auto number = value_number(value)) numbered.push_back({.value = value, .number = *number});
  };
  for (Value* input : graph.inputs()) add(input);
  for (Node* node : nodes_in_order(graph)) {
    for (Value* value : made_values(node)) add(value);
  }
  return numbered;
}

std::set<std::size_t> unobserved_values(const Model& model) {
  std::set<std::size_t> numbers;
  const auto add = [&](const Value* value) {
    if (const auto number = holds_tensor(value) ? value_number(value) : std::nullopt) numbers.insert(*number);
  };
  for (const Node* node : nodes_in_order(*model.graph)) {
    const NodeRecord* record = record_of(model, node);
    if (record == nullptr || !record->unobserved_qconfig) continue;
    for (const Value* operand : operands(node)) add(before_observers(operand));
    for (const Value* output : node->outputs()) add(output);
  }
  return numbers;
}

const ValueFacts* facts_of(const Model& model, const Value* value) {
  const auto number = value->owningGraph() == model.graph.get() ? value_number(value) : std::nullopt;
  return number && *number < model.facts.values.size() ? &model.facts.values[*number] : nullptr;
}

}  // namespace tsq::ir
