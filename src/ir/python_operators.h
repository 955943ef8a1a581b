#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace tsq::ir {

/// Operators of Python that TorchScript calls by other names, as FX sees them: `x / y` is operator.truediv.
/// `sign` is in the expression.
struct PythonOperator {
  std::string_view aten;
  std::string_view name;
  std::string_view sign;
};
inline constexpr std::array kPythonOperators{
    PythonOperator{"add", "add", "+"},
    PythonOperator{"sub", "sub", "-"},
    PythonOperator{"rsub", "sub", "-"},
    PythonOperator{"mul", "mul", "*"},
    PythonOperator{"matmul", "matmul", "@"},
    PythonOperator{"div", "truediv", "/"},
    PythonOperator{"remainder", "mod", "%"},
    PythonOperator{"pow", "pow", "**"},
    PythonOperator{"neg", "neg", "-"},
    PythonOperator{"bitwise_not", "invert", "~"},
    PythonOperator{"__and__", "and_", "&"},
    PythonOperator{"bitwise_and", "and_", "&"},
    PythonOperator{"__or__", "or_", "|"},
    PythonOperator{"bitwise_or", "or_", "|"},
    PythonOperator{"__xor__", "xor", "^"},
    PythonOperator{"bitwise_xor", "xor", "^"},
    PythonOperator{"__lshift__", "lshift", "<<"},
    PythonOperator{"__rshift__", "rshift", ">>"},
    PythonOperator{"eq", "eq", "=="},
    PythonOperator{"ne", "ne", "!="},
    PythonOperator{"lt", "lt", "<"},
    PythonOperator{"le", "le", "<="},
    PythonOperator{"gt", "gt", ">"},
    PythonOperator{"ge", "ge", ">="},
};

/// How many operands an operator has that operator.`name` names.
[[nodiscard]] inline std::size_t operands_of(std::string_view name) {
  return name == "neg" || name == "invert" ? 1 : 2;
}

/// Null for an operator that Python has no sign for.
[[nodiscard]] inline const PythonOperator* python_operator(std::string_view aten) {
  const auto found = std::ranges::find(kPythonOperators, aten, &PythonOperator::aten);
  return found == kPythonOperators.end() ? nullptr : &*found;
}

}  // namespace tsq::ir
