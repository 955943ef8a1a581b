#include "match/matcher.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "base/user_call.h"
#include "config/fusers.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/number_first.h"

namespace tsq::match {

const std::vector<Symbol>& Matcher::targets(const ir::Node* node) {
  const auto found = targets_.find(node);
  if (found != targets_.end()) return found->second;
  return targets_.emplace(node, ir::targets(model_, node)).first->second;
}

bool Matcher::match_value(ir::Value* value, const ir::Node* user, const Pattern& pattern,
                          MatchedNode& result) {
  result.pattern = &pattern;
  result.value = value;
  if (pattern.symbol.kind == SymbolKind::MatchAll) return true;
  if (pattern.symbol.kind == SymbolKind::Literal) {
    const auto number = ir::whole_number_constant(value);
    return number && std::to_string(*number) == pattern.symbol.name;
  }
  if (value->node()->owningBlock() != user->owningBlock() || ir::users(value).size() > 1) return false;
  return match_node(value->node(), pattern, result);
}

/// Whether a node has as many arguments as the pattern: FX compares the lengths of args. Where their number
/// is not known, and for recipe best, tensors are counted alone.
bool Matcher::has_arguments_of(const ir::Node* node, const std::vector<ir::Argument>& arguments,
                               const Pattern& pattern) const {
  const std::size_t count = pattern.args.size();
  if (arguments.size() < count) return false;
  if (!model_.any_spelling) {
    if (const auto written = ir::positional_arguments(node, pattern.symbol)) return *written == count;
  }
  return std::none_of(arguments.begin() + static_cast<std::ptrdiff_t>(count), arguments.end(),
                      [](const ir::Argument& argument) { return ir::holds_tensor(argument.value); });
}

bool Matcher::match_node(ir::Node* node, const Pattern& pattern, MatchedNode& result) {
  result.pattern = &pattern;
  result.node = node;
  if (ir::stays_float(model_, node)) return false;
  if (ir::is_opaque(model_, node)) return false;  // C-09: it is no part of another pattern
  const std::vector<Symbol>& spellings = targets(node);
  if (std::ranges::find(spellings, pattern.symbol) == spellings.end()) return false;
  if (pattern.args.empty()) return true;
  const auto arguments = ir::arguments_as_written(node);
  if (!has_arguments_of(node, arguments, pattern)) return false;
  for (std::size_t i = 0; i < pattern.args.size(); ++i) {
    MatchedNode inner;
    if (!match_value(arguments[i].value, node, pattern.args[i], inner)) return false;
    result.args.push_back(std::move(inner));
  }
  return true;
}

std::optional<MatchedNode> Matcher::match(ir::Node* node, const Pattern& pattern) {
  MatchedNode result;
  return match_node(node, pattern, result) ? std::optional(std::move(result)) : std::nullopt;
}

std::vector<ir::Node*> nodes_of(const MatchedNode& matched) {
  std::vector<ir::Node*> nodes;
  if (matched.node != nullptr) nodes.push_back(matched.node);
  for (const MatchedNode& argument : matched.args) {
    for (ir::Node* node : nodes_of(argument)) nodes.push_back(node);
  }
  return nodes;
}

std::vector<const MatchedNode*> in_forward_order(const MatchedNode& matched) {
  std::vector<const MatchedNode*> forward;
  for (const MatchedNode& argument : matched.args)
    std::ranges::copy(in_forward_order(argument), std::back_inserter(forward));
  if (matched.node != nullptr) forward.push_back(&matched);
  return forward;
}

namespace {

/// The node where `part` of the row's pattern stands; null where the pattern has no such part.
const MatchedNode* node_at(const MatchedNode& matched, const Pattern* part) {
  if (matched.pattern == part) return &matched;
  for (const MatchedNode& argument : matched.args) {
    if (const MatchedNode* found = node_at(argument, part)) return found;
  }
  return nullptr;
}

/// What is read now where `part` of the pattern stands; null where it is no argument.
ir::Value* value_at(const MatchedNode& matched, const Pattern* part) {
  for (std::size_t i = 0; i < matched.args.size(); ++i) {
    if (matched.args[i].pattern == part) return ir::arguments_as_written(matched.node)[i].value;
    if (ir::Value* value = value_at(matched.args[i], part)) return value;
  }
  return nullptr;
}

/// PyTorch's getters of extra inputs: the one value that anything may stand for.
const Pattern* match_all_in(const Pattern& pattern) {
  for (const Pattern& arg : pattern.args) {
    if (arg.symbol.kind == SymbolKind::MatchAll) return &arg;
    if (const Pattern* found = match_all_in(arg)) return found;
  }
  return nullptr;
}

std::string getter_of(const std::string& name, const BackendPatternConfig& row) {
  return fmt::format("the getter '{}' of the row '{}'", name, to_string(row.key()));
}

[[noreturn]] void fail_getter(const std::string& name, const BackendPatternConfig& row) {
  throw Error(ErrorCode::BadConfig, getter_of(name, row) + " returns no part of the pattern",
              "return a reference into the pattern that it is given");
}

}  // namespace

const MatchedNode& root_of(const MatchedNode& matched, const BackendPatternConfig& row) {
  if (is_registered(row.root_node_getter)) {
    const RootNodeFunction getter = registered_root_node_getter(row.root_node_getter);
    const Pattern& part =
        *call_of_user(getter_of(root_node_getter_name(row), row), {}, [&] { return &getter(row.key()); });
    const MatchedNode* found = node_at(matched, &part);
    if (found == nullptr) fail_getter(root_node_getter_name(row), row);
    return *found;
  }
  if (row.root_node_getter == RootNodeGetter::FirstArgument && !matched.args.empty())
    return matched.args.front();
  const MatchedNode* current = &matched;
  while (!current->args.empty()) {
    // A relu on top of the addition has one argument: only the addition has a left and a right.
    const bool takes_left = row.root_node_getter == RootNodeGetter::ConvLeft && current->args.size() > 1;
    current = takes_left ? &current->args.front() : &current->args.back();
  }
  return *current;
}

std::vector<ir::Value*> extra_inputs_of(const MatchedNode& matched, const BackendPatternConfig& row) {
  std::vector<const Pattern*> parts;
  if (row.extra_inputs_getter == ExtraInputsGetter::OtherAddend) {
    parts.push_back(match_all_in(row.key()));
  } else if (is_registered(row.extra_inputs_getter)) {
    const ExtraInputsFunction getter = registered_extra_inputs_getter(row.extra_inputs_getter);
    parts =
        call_of_user(getter_of(extra_inputs_getter_name(row), row), {}, [&] { return getter(row.key()); });
  }
  std::vector<ir::Value*> values;
  for (const Pattern* part : parts) {
    values.push_back(part == nullptr ? nullptr : value_at(matched, part));
    if (values.back() == nullptr && is_registered(row.extra_inputs_getter))
      fail_getter(extra_inputs_getter_name(row), row);
  }
  std::erase(values, nullptr);
  return values;
}

std::vector<const BackendPatternConfig*> sorted_rows(const BackendConfig& backend) {
  std::vector<const BackendPatternConfig*> rows;
  for (const BackendPatternConfig& row : backend.configs()) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::greater(),
                           [](const BackendPatternConfig* row) { return leaf_count(row->key()); });
  return rows;
}

}  // namespace tsq::match
