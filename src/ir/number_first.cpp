#include "ir/number_first.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "config/names/known_names.h"
#include "ir/python_source.h"

namespace tsq::ir {
namespace {

bool is_division(const Node* node) {
  const Origin origin = origin_of(node);
  const auto both = symbol_of_both(origin);
  return both && both->name == "operator.truediv" && node->input(0)->node()->kind() == c10::aten::reciprocal;
}

/// Whether a tensor's operator with a number was written with the number first.
bool has_number_first(const Node* node) {
  const Origin origin = origin_of(node);
  if (node->kind() == c10::aten::rsub) return origin.expression != "torch.rsub";
  const bool can_have = node->kind().is_aten() && node->inputs().size() > 1 && holds_tensor(node->input(0)) &&
                        !holds_tensor(node->input(1));
  if (!can_have) return false;
  if (origin.is_number_first) return true;
  // Most begin with a name: they are not parsed.
  if (origin.expression.find_first_of("0123456789.+-~(") != 0) return false;
  // In brackets it may have several lines.
  const std::vector<PythonExpression> expressions = python_expressions("(" + origin.expression + ")");
  return !expressions.empty() && expressions.back().is_number_first;
}

}  // namespace

std::optional<Symbol> symbol_of_both(const Origin& origin) {
  if (!origin.is_number_first) return std::nullopt;
  if (origin.expression == "torch.neg(b) + a") return parse_symbol("operator.sub");
  if (origin.expression == "torch.reciprocal(b) * a") return parse_symbol("operator.truediv");
  return std::nullopt;
}

bool is_part_of_division(const Node* node, const Origin& origin) {
  return node->kind() == c10::aten::reciprocal && origin.is_number_first &&
         origin.expression == "torch.reciprocal";
}

std::vector<Argument> arguments_as_written(const Node* node) {
  std::vector<Argument> result = arguments(node);
  if (!has_number_first(node)) return result;
  if (is_division(node)) result.front() = arguments(node->input(0)->node()).front();
  std::swap(result[0], result[1]);
  return result;
}

Node* reader_of_arguments(Node* node) {
  return has_number_first(node) && is_division(node) ? node->input(0)->node() : node;
}

}  // namespace tsq::ir
