#pragma once

#include <vector>

#include "ir/model.h"

namespace tsq::operators {

/// softmax(q k^T) v, as one operator or as two products around a softmax, between which scores are multiplied
/// by numbers and a mask is added.
struct Attention {
  torch::jit::Use query;
  torch::jit::Use key;
  torch::jit::Use value;
  ir::Node* result;  ///< the operator that returns it
};

[[nodiscard]] std::vector<Attention> attentions(const ir::Model& model);

}  // namespace tsq::operators
