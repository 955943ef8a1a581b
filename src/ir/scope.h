#pragma once

#include <tsq/symbol.h>

#include <cstddef>
#include <optional>
#include <string>

#include "ir/graph.h"

namespace tsq::ir {

/// A module of the user's model: the path and class that a node came from.
struct Scope {
  std::string path{};
  Symbol type{};
  bool is_opened{false};  ///< a module of torch.nn that FX would not look into
};

/// Which of the model's scopes a node came from; none: not known.
[[nodiscard]] std::optional<std::size_t> scope_index(const Node* node);
void set_scope(Node* node, std::size_t index);
/// Copies scope and place from one node to another.
void take_scope(Node* to, const Node* from);

}  // namespace tsq::ir
