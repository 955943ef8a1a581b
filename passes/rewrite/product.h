#pragma once

#include <cstdint>
#include <vector>

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// A product with a constant, as a linear layer: the node whose output it computes, its input, and what is
/// done to both.
struct Product {
  ir::Node* last{};
  ir::Value* input{};
  ir::Weighted weighted{};
  std::vector<int64_t> moved{};        ///< dimensions of the input that become its last ones first
  int64_t flattened{1};                ///< the last dimensions of the input that are multiplied
  std::vector<int64_t> unflattened{};  ///< sizes in place of the output's last dimension
  std::vector<int64_t> order{};        ///< of the output's dimensions
  bool is_turned{false};               ///< the output's last two dimensions change places
};

}  // namespace tsq::passes
