#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Python source as its author wrote it, read with the lexer and the parser of LibTorch.
namespace tsq::ir {

/// A logical line of a Python file: simple statements, or the head of a compound one with what follows it in
/// its line.
struct PythonStatement {
  std::string function{};     ///< the name of the function that it stands in; empty: in none
  std::size_t first_line{1};  ///< lines are counted from 1
  std::size_t last_line{1};
  std::string text{};
};

/// A call or an operator in a statement.
struct PythonExpression {
  std::string name{};  ///< of a call the name before its bracket, of an operator its sign
  bool is_call{false};
  std::string text{};           ///< with its operands or arguments
  std::size_t head{};           ///< so much of the text is what is called; of an operator all
  std::size_t line{};           ///< of the statement's lines, from 0, the one that it begins in
  std::size_t arguments{};      ///< of a call, those by position; of an operator, its operands
  bool is_number_first{false};  ///< `2.0 * x`
  bool may_be_skipped{false};   ///< in `a if c else b`, in `a and b`, in a comprehension
};

/// The statements of a file, in its order; none where LibTorch's lexer does not read it.
std::vector<PythonStatement> python_statements(std::string_view text);

/// The calls and operators of a logical line, in the order in which Python evaluates them, but for those
/// of numbers alone; none where the text is not Python that TorchScript's parser reads.
std::vector<PythonExpression> python_expressions(std::string_view statement);

}  // namespace tsq::ir
