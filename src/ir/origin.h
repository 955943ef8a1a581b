#pragma once

#include <optional>
#include <string>

#include "ir/model.h"

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
};

Origin origin_of(const Node* node);

/// How many arguments of a call its author wrote by position, between the brackets; none where it is no call
/// of a scripted file, or where the text does not tell.
std::optional<std::size_t> written_arguments(const Node* node);

}  // namespace tsq::ir
