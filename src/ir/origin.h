#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tsq::ir {

/// What a file tells of the Python code that an operator comes from. Scripted files carry the source text,
/// traced files the Python stack; files without debug information carry neither.
struct Origin {
  enum class Writer {
    Unknown,
    User,        ///< the user's own code
    Functional,  ///< the body of a function of torch.nn.functional
    Module,      ///< the forward of a module of torch.nn
  };
  Writer writer{Writer::Unknown};
  std::string expression{};  ///< scripted: for a call the callee, for an operator the whole of it
  std::string function{};    ///< traced, Functional: the function's name
  bool in_module{false};     ///< called by a module of torch.nn, as far as it can be told
  /// In a function that TorchScript, or torch.Tensor, has for a number on the left of a tensor. The
  /// expression is that of TorchScript's function, in which the number is `a` and the tensor `b`:
  /// "torch.neg(b) + a".
  bool is_number_first{false};
};

Origin origin_of(const Node* node);

/// Where in the user's own code a traced operator was called.
struct TracedCall {
  std::string file{};
  std::size_t line{};      ///< counted from 1
  std::string function{};  ///< the one that has the line
  std::string callers{};   ///< the stack around it
};

/// None for an operator of another file, or of the library; nor for `2.0 / x`, which origin_of knows.
std::optional<TracedCall> traced_call(const Node* node);

/// The arguments of a call as its author wrote them, between the brackets.
struct WrittenArguments {
  std::vector<std::string> positional{};
  std::vector<std::string> keywords{};  ///< the names of the others
};

/// None where an operator is no call whose source is known, or where the text does not tell.
std::optional<WrittenArguments> written_arguments(const Node* node);

}  // namespace tsq::ir
