#pragma once

#include <unordered_set>

#include "ir/model.h"

/// What is no float tensor, and so has no range.
namespace tsq::passes {

/// Whether a node computes with shapes and numbers only (D-02).
[[nodiscard]] bool has_no_tensor_arguments(const ir::Node* node);

/// Whether a node looks lists and dicts up or fills them: nothing is computed.
[[nodiscard]] bool handles_containers(const ir::Node* node);

/// Masks, and what they come from (D-04).
struct Masks {
  std::unordered_set<const ir::Node*> nodes{};
  std::unordered_set<const ir::Value*> inputs{};  ///< of the model, or of a block
};
Masks find_masks(const ir::Model& model);

}  // namespace tsq::passes
