#include <algorithm>
#include <array>

#include "backends/programs/operator_rows.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/traits.h"

namespace tsq::programs {
namespace {

using ir::Node;
using ir::Value;
using runtime::PostOpKind;

bool sizes(const Call& call) {
  const auto input = call.input();
  if (!input) return false;
  if (const Value* axis = call.argument("dim"); axis != nullptr) {
    const auto number = call.whole("dim");
    if (!number) return false;
    call.program.define(
        call.node->output(),
        call.program.integer({.kind = runtime::IntegerKind::Size, .value = *input, .axis = *number}));
    return true;
  }
  const Node* list = call.unpacking();
  if (list == nullptr) return false;
  for (std::size_t i = 0; i < list->outputs().size(); ++i) {
    call.program.define(list->output(i), call.program.integer({.kind = runtime::IntegerKind::Size,
                                                               .value = *input,
                                                               .axis = static_cast<std::int64_t>(i)}));
  }
  return true;
}

template <runtime::IntegerKind Function>
bool integers(const Call& call) {
  if (call.node->output()->type()->kind() != c10::TypeKind::IntType || call.node->inputs().size() != 2)
    return false;
  const auto left = call.program.extent(call.node->input(0));
  const auto right = left ? call.program.extent(call.node->input(1)) : std::nullopt;
  if (!left || !right) return false;
  call.program.define(call.node->output(),
                      call.program.integer({.kind = Function, .left = *left, .right = *right}));
  return true;
}

bool is_number(const Value* value) {
  const auto kind = value->type()->kind();
  return kind == c10::TypeKind::FloatType || kind == c10::TypeKind::NumberType;
}

/// A number of which another is computed, in the order of operands; the other one is known.
struct NumberOperands {
  ComputedNumber computed{};
  double known = 0;
  bool is_first = true;  ///< the computed one
};
std::optional<NumberOperands> number_operands(const Call& call) {
  if (!is_number(call.node->output()) || call.node->inputs().size() != 2) return std::nullopt;
  for (const std::size_t side : {0, 1}) {
    const auto known = ir::number_constant(call.program.resolved(call.node->input(1 - side)));
    const auto computed = known ? call.program.number(call.node->input(side)) : std::nullopt;
    if (computed) return NumberOperands{.computed = *computed, .known = *known, .is_first = side == 0};
  }
  return std::nullopt;
}

bool define_number(const Call& call, ComputedNumber number, std::initializer_list<runtime::PostOp> post_ops) {
  number.post_ops.insert(number.post_ops.end(), post_ops);
  call.program.define(call.node->output(), number);
  return true;
}

/// A function of one number.
template <PostOpKind Function>
bool function_of_number(const Call& call) {
  if (!is_number(call.node->output())) return false;
  const auto number = call.program.number(call.node->input(0));
  return number && define_number(call, *number, {{.kind = Function}});
}
bool same_number(const Call& call) {
  const auto number =
      is_number(call.node->output()) ? call.program.number(call.node->input(0)) : std::nullopt;
  return number && define_number(call, *number, {});
}

runtime::PostOp linear_function(double factor, double addend) {
  return {.kind = PostOpKind::Linear, .alpha = factor, .beta = addend};
}

bool product_of_numbers(const Call& call) {
  const auto read = number_operands(call);
  return read && define_number(call, read->computed, {linear_function(read->known, 0)});
}
bool sum_of_numbers(const Call& call) {
  const auto read = number_operands(call);
  return read && define_number(call, read->computed, {linear_function(1, read->known)});
}
bool difference_of_numbers(const Call& call) {
  const auto read = number_operands(call);
  if (!read) return false;
  return define_number(
      call, read->computed,
      {read->is_first ? linear_function(1, -read->known) : linear_function(-1, read->known)});
}
bool quotient_of_numbers(const Call& call) {
  const auto read = number_operands(call);
  if (!read || (read->is_first && read->known == 0)) return false;
  if (read->is_first) return define_number(call, read->computed, {linear_function(1 / read->known, 0)});
  return define_number(call, read->computed,
                       {{.kind = PostOpKind::Pow, .alpha = -1}, linear_function(read->known, 0)});
}
bool power_of_number(const Call& call) {
  const auto read = number_operands(call);
  return read && read->is_first &&
         define_number(call, read->computed, {{.kind = PostOpKind::Pow, .alpha = read->known}});
}

/// Whether a tensor of a whole number is only read where it becomes a float.
bool becomes_float(const Call& call) {
  return std::ranges::all_of(ir::users(call.node->output()), [&](const Node* user) {
    const Value* rounding = operators::argument_named(user, "rounding_mode");
    if (rounding != nullptr && !rounding->mustBeNone()) return false;
    if (operators::is_one_of(call.program.model(), user, {"sqrt", "rsqrt", "div", "to"})) return true;
    return operators::is_one_of(call.program.model(), user, {"pow"}) &&
           user->input(1)->type()->kind() == c10::TypeKind::FloatType;
  });
}

/// torch.tensor(q.size(-1)), where it is or becomes a float.
bool tensor_of_number(const Call& call) {
  const auto number = call.program.number(call.node->input(0));
  if (!number) return false;
  const auto dtype = call.is_none("dtype") ? std::nullopt : ir::dtype_constant(call.argument("dtype"));
  const bool is_float =
      dtype == c10::ScalarType::Float || (call.is_none("dtype") && is_number(call.node->input(0)));
  if (!is_float && (!call.is_none("dtype") || !becomes_float(call))) return false;
  call.program.define(call.node->output(), call.program.write({.kind = runtime::Kind::Number,
                                                               .post_ops = number->post_ops,
                                                               .number = number->number}));
  return true;
}

/// The same as floats, which it is.
bool number_to_float(const Call& call) {
  const auto kind = call.node->input(0)->node()->kind();
  const Value* dtype = call.argument("dtype");
  if ((kind != c10::aten::tensor && kind != c10::prim::NumToTensor) || dtype == nullptr ||
      ir::dtype_constant(dtype) != c10::ScalarType::Float)
    return false;
  const auto input = call.input();
  if (input) call.program.define(call.node->output(), *input);
  return input.has_value();
}

constexpr std::array kNumberRows{
    OperatorRow{"aten::mul", integers<runtime::IntegerKind::Multiply>},
    OperatorRow{"aten::add", integers<runtime::IntegerKind::Add>},
    OperatorRow{"aten::sub", integers<runtime::IntegerKind::Subtract>},
    OperatorRow{"aten::floordiv", integers<runtime::IntegerKind::FloorDivide>},
    OperatorRow{"aten::remainder", integers<runtime::IntegerKind::Remainder>},
    OperatorRow{"prim::min", integers<runtime::IntegerKind::Minimum>},
    OperatorRow{"prim::max", integers<runtime::IntegerKind::Maximum>},
    OperatorRow{"aten::size", sizes},
    OperatorRow{"aten::mul", product_of_numbers},
    OperatorRow{"aten::add", sum_of_numbers},
    OperatorRow{"aten::sub", difference_of_numbers},
    OperatorRow{"aten::div", quotient_of_numbers},
    OperatorRow{"aten::pow", power_of_number},
    OperatorRow{"aten::sqrt", function_of_number<PostOpKind::Sqrt>},
    OperatorRow{"aten::neg", function_of_number<PostOpKind::Neg>},
    OperatorRow{"aten::exp", function_of_number<PostOpKind::Exp>},
    OperatorRow{"aten::log", function_of_number<PostOpKind::Log>},
    OperatorRow{"aten::Float", same_number},
    OperatorRow{"aten::tensor", tensor_of_number},
    OperatorRow{"prim::NumToTensor", tensor_of_number},
    OperatorRow{"aten::to", number_to_float},
};

}  // namespace

std::span<const OperatorRow> number_rows() { return kNumberRows; }

}  // namespace tsq::programs
