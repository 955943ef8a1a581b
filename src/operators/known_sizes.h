#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "ir/model.h"

/// Sizes of tensors that the parameters of layers or constants of the graph tell, whatever the input. What
/// calibration saw tells none: a size that was the same in all samples, a length or a batch, may be another
/// when the model runs, and what is written into the graph by these sizes, or scaled by them, would be wrong
/// then.
namespace tsq::operators {

/// What is known of the sizes of one tensor.
struct TensorSizes {
  std::optional<std::int64_t> rank{};
  std::map<std::int64_t, std::int64_t> of_dims{};  ///< by dimension, counted from the last one: -1
};

using KnownSizes = std::unordered_map<const ir::Value*, TensorSizes>;

/// One walk over the graph, from what makes a value to what reads it. Valid as long as the graph is not
/// changed, but for nodes that are added and numbers that become constants.
[[nodiscard]] KnownSizes known_sizes(const ir::Model& model);
/// A step of it: what is known of the outputs of a node, once all in front of it were visited.
void add_sizes(KnownSizes& known, const ir::Model& model, const ir::Node* node);

/// `dim` counts from the first dimension, or, below zero, from the last.
[[nodiscard]] std::optional<std::int64_t> known_size(const KnownSizes& known, const ir::Value* tensor,
                                                     std::int64_t dim);

}  // namespace tsq::operators
