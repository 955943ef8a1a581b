#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tsq::ir {

/// A part of a logical line of Python that TorchScript's parser reads by itself: a simple statement, or the
/// expression in the head of a compound one. `if f(x) > 0: y = g(x); z = y` has three.
struct PythonPart {
  std::string text{};
  std::size_t line{};          ///< of the logical line's lines, from 0, the one that it begins in
  bool may_be_skipped{false};  ///< what follows a head in its line, and what `elif` and `while` ask
};

/// The parts, in the order in which they run. Throws what LibTorch's lexer throws.
std::vector<PythonPart> python_parts(std::string_view statement);

/// The text as LibTorch's lexer reads it, which has no semicolons.
std::string without_semicolons(std::string_view text);

}  // namespace tsq::ir
