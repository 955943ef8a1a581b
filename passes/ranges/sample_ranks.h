#pragma once

#include <cstdint>
#include <optional>

#include "passes/context/pass_context.h"

/// How many dimensions a sample has for an operator, without that of a batch.
namespace tsq::passes {

/// Of one sample of what the operator reads, where its kernel takes batches only.
std::optional<int64_t> sample_rank(const Model& model, const Node* node);

/// Of one sample of what a norm of torch.nn reads whose kernel takes batches only.
std::optional<int64_t> rank_of_normed_sample(const Model& model, const Node* node);

/// Operators on values one by one, which take any rank.
[[nodiscard]] bool is_elementwise(const Model& model, const Node* node);
/// Sums and products of two tensors, which take any rank.
[[nodiscard]] bool is_sum(const Model& model, const Node* node);

}  // namespace tsq::passes
