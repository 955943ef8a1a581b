#pragma once

#include <span>
#include <string_view>

/// The public names of PyTorch, to tell a slip of the pen from a name of the user's own.
namespace tsq {

/// "torch.nn." and the names in it, with a space between.
struct PyTorchNamespace {
  std::string_view prefix;
  std::string_view names;
};

/// A namespace stands before those that it is part of.
std::span<const PyTorchNamespace> pytorch_namespaces();
/// The names with one of these prefixes.
std::string_view pytorch_names(std::string_view prefix);
std::string_view tensor_methods();

}  // namespace tsq
