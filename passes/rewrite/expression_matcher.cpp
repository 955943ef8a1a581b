#include "passes/rewrite/expression_matcher.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ir/analysis.h"
#include "operators/clamp_bounds.h"
#include "operators/images/whole_average.h"
#include "passes/rewrite/held_constants.h"

namespace tsq::passes {
namespace {

using expressions::Expression;
using Kind = Expression::Kind;

/// Factors may come out of files in float.
bool is_near(double number, double meant) { return std::abs(number / meant - 1) < 1e-6; }

/// What is multiplied, and by which number.
struct Factors {
  std::vector<Value*> values{};
  double number{1};
};

class ExpressionMatcher {
 public:
  explicit ExpressionMatcher(const Model& model) : model_(model) {}

  bool matches(Value* value, const Expression& expression) {
    if (expression.is_read_once && value->uses().size() != 1) return false;
    Node* node = value->node();
    switch (expression.kind) {
      case Kind::X:
        return is_leaf("x", value);
      case Kind::Number:
        return constant_number(model_, value) && is_leaf(expression.name, value);
      case Kind::Vector:
        return vector_size(model_, value) > 0 && is_leaf(expression.name, value);
      case Kind::Sum:
        return is_plain_sum(node) && either_order(node, expression);
      case Kind::Difference:
        return node->kind() == c10::aten::sub && node->inputs().size() == 3 &&
               constant_number(model_, node->input(2)) == 1 && in_order(node, expression);
      case Kind::Product:
        return node->kind() == c10::aten::mul &&
               (expression.numbers.empty() ? either_order(node, expression) : in_order(node, expression));
      case Kind::Quotient:
        return node->kind() == c10::aten::div && node->inputs().size() == 2 && in_order(node, expression);
      case Kind::Factors:
        return is_product_of(node, expression);
      case Kind::Sigmoid:
        return is_sigmoid(node) && matches(ir::operands(node).front(), expression.operands.front());
      case Kind::Clamp:
        return clamps(node, expression) && matches(ir::operands(node).front(), expression.operands.front());
      case Kind::Erf:
        return node->kind() == c10::aten::erf && matches(node->input(0), expression.operands.front());
      case Kind::Sqrt:
        return node->kind() == c10::aten::sqrt && matches(node->input(0), expression.operands.front());
      case Kind::Square:
        return is_square(node) && matches(node->input(0), expression.operands.front());
      case Kind::RowMean:
        return operators::averaged_and_kept(model_, node) == std::vector<int64_t>{-1} &&
               matches(node->input(0), expression.operands.front());
    }
    return false;
  }

  [[nodiscard]] const Leaves& leaves() const { return leaves_; }

 private:
  bool is_leaf(std::string_view name, Value* value) {
    return leaves_.emplace(name, value).first->second == value;
  }

  /// Without leaves of a match that has come to nothing.
  template <typename Attempt>
  bool attempted(const Attempt& attempt) {
    Leaves before = leaves_;
    if (attempt()) return true;
    leaves_ = std::move(before);
    return false;
  }

  /// The sum of two inputs, none of them multiplied.
  [[nodiscard]] bool is_plain_sum(const Node* node) const {
    return node->kind() == c10::aten::add &&
           (node->inputs().size() < 3 || constant_number(model_, node->input(2)) == 1);
  }

  bool in_order(Node* node, const Expression& expression) { return are_operands(node, expression, 0); }

  bool either_order(Node* node, const Expression& expression) {
    return attempted([&] { return are_operands(node, expression, 0); }) ||
           attempted([&] { return are_operands(node, expression, 1); });
  }

  /// Whether the two operands of an expression are inputs of a node, `first` being the place of the first.
  bool are_operands(Node* node, const Expression& expression, std::size_t first) {
    Value* second = node->input(1 - first);
    const bool has_second = expression.numbers.empty() || is_number(second, expression);
    return has_second && matches(node->input(first), expression.operands.front()) &&
           (!expression.numbers.empty() || matches(second, expression.operands.back()));
  }

  [[nodiscard]] bool is_number(const Value* value, const Expression& expression) const {
    const auto found = constant_number(model_, value);
    const double meant = expression.numbers.front();
    return found && (expression.kind == Kind::Product ? is_near(*found, meant) : *found == meant);
  }

  bool is_product_of(Node* node, const Expression& expression) {
    Factors product;
    take_factors(node, product);
    if (product.values.size() != expression.operands.size() ||
        !is_near(product.number, expression.numbers.front()))
      return false;
    std::vector<std::size_t> order(product.values.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      if (attempted([&] { return are_factors(product.values, order, expression); })) return true;
    } while (std::ranges::next_permutation(order).found);
    return false;
  }

  bool are_factors(const std::vector<Value*>& values, const std::vector<std::size_t>& order,
                   const Expression& expression) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (!matches(values[order[i]], expression.operands[i])) return false;
    }
    return true;
  }

  /// Those of a product or of a quotient by a number, and of its factors that nobody else reads; none of
  /// other nodes.
  void take_factors(Node* node, Factors& product) const {
    if (!multiplies(node)) return;
    for (const std::size_t side : {0, 1}) {
      Value* factor = node->input(side);
      if (const auto number = constant_number(model_, factor)) {
        const bool divides = node->kind() == c10::aten::div && side == 1;
        product.number *= divides ? 1 / *number : *number;
      } else if (factor->uses().size() == 1 && multiplies(factor->node())) {
        take_factors(factor->node(), product);
      } else {
        product.values.push_back(factor);
      }
    }
  }

  [[nodiscard]] bool multiplies(const Node* node) const {
    const bool divides = node->kind() == c10::aten::div && node->inputs().size() == 2;
    return node->kind() == c10::aten::mul || (divides && constant_number(model_, node->input(1)));
  }

  [[nodiscard]] bool is_sigmoid(const Node* node) const {
    return std::ranges::any_of(ir::targets(model_, node), [](const Symbol& target) {
      return target.name == "torch.sigmoid" || target.name == "torch.nn.Sigmoid";
    });
  }

  [[nodiscard]] bool clamps(const Node* node, const Expression& expression) const {
    const auto bounds = operators::clamp_bounds(model_, node);
    return bounds && bounds->lowest == expression.numbers.front() &&
           bounds->highest == expression.numbers.back();
  }

  [[nodiscard]] bool is_square(const Node* node) const {
    const bool is_power = node->kind() == c10::aten::pow && constant_number(model_, node->input(1)) == 2;
    return is_power || (node->kind() == c10::aten::mul && node->input(0) == node->input(1));
  }

  const Model& model_;
  Leaves leaves_;
};

}  // namespace

std::optional<Leaves> match_expression(const Model& model, Node* last, const Expression& expression) {
  if (last->outputs().size() != 1) return std::nullopt;
  ExpressionMatcher matcher(model);
  return matcher.matches(last->output(), expression) ? std::optional(matcher.leaves()) : std::nullopt;
}

}  // namespace tsq::passes
