#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "ir/model.h"

namespace tsq::operators {

/// Sizes of tensors that the parameters of layers or constants of the graph tell, whatever the input. Valid
/// as long as the graph is not changed, but for nodes that are added and numbers that become constants.
class KnownSizes {
 public:
  using Size = std::optional<std::int64_t>;

  explicit KnownSizes(const ir::Model& model);

  /// `dim` counts from the first dimension, or, below zero, from the last.
  [[nodiscard]] Size of(const ir::Value* tensor, std::int64_t dim) const;

 private:
  [[nodiscard]] bool is(const ir::Node* node, std::initializer_list<std::string_view> names) const;
  [[nodiscard]] Size at(const ir::Value* value, std::int64_t dim, int distance) const;
  [[nodiscard]] Size of_layer(const ir::Node* node, std::int64_t dim) const;
  [[nodiscard]] Size of_transpose(const ir::Node* node, std::int64_t dim, int distance) const;
  [[nodiscard]] Size of_permutation(const ir::Node* node, std::int64_t dim, int distance) const;
  [[nodiscard]] Size of_part(const ir::Value* whole, const Size& lost, std::int64_t dim, int distance) const;
  [[nodiscard]] Size of_list(const ir::Node* made, std::int64_t dim, int distance) const;
  [[nodiscard]] Size of_two(const ir::Node* node, std::int64_t dim, int distance) const;
  [[nodiscard]] Size rank_made_by(const ir::Node* node) const;
  [[nodiscard]] Size widest_rank(const ir::Node* node) const;
  [[nodiscard]] Size rank_of(const ir::Value* value) const;

  const ir::Model& model_;
  std::unordered_map<const ir::Value*, std::int64_t> ranks_{};
};

}  // namespace tsq::operators
