#pragma once

#include "ir/model.h"

namespace tsq::operators {

/// Whether an operator returns the average of whole maps or signals, one number for each: an adaptive average
/// pool to one value, or a mean over dimensions. Such averages use a small part of the range of what they
/// are averages of.
[[nodiscard]] bool is_whole_average(const ir::Model& model, const ir::Node* node);

/// Whether it is one over height and width that keeps them as dimensions of one.
[[nodiscard]] bool is_whole_image_average(const ir::Model& model, const ir::Node* node);

/// The dimensions over which a node is a mean, in order, when it keeps them as dimensions of one; empty for
/// other nodes.
[[nodiscard]] std::optional<std::vector<int64_t>> averaged_and_kept(const ir::Model& model,
                                                                    const ir::Node* node);

}  // namespace tsq::operators
