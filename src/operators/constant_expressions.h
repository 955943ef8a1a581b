#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/model.h"

namespace tsq::operators {

/// What a graph computes from constants and from attributes that it only reads. Valid as long as the graph is
/// not changed, but for nodes that are added.
class ConstantExpressions {
 public:
  /// What an observer makes of a value.
  using Observing = std::function<at::Tensor(const ir::Node* observer, const at::Tensor& value)>;

  /// Without `observing` nothing is known of what comes out of observers.
  explicit ConstantExpressions(const ir::Model& model, Observing observing = {});

  /// The value; empty for what depends on the model's inputs, on chance or on memory that may be written.
  [[nodiscard]] std::optional<c10::IValue> value_of(const ir::Value* value) const;

  /// The attributes that a value is computed from, sorted.
  [[nodiscard]] std::vector<std::string> attributes_of(const ir::Value* value) const;

 private:
  [[nodiscard]] std::optional<c10::IValue> evaluated(const ir::Value* value) const;
  [[nodiscard]] std::optional<c10::IValue> computed(const ir::Node* node, std::size_t output) const;
  [[nodiscard]] bool is_only_read(const ir::Value* value) const;
  [[nodiscard]] bool only_reads(const torch::jit::Use& use) const;
  void collect_written(const torch::jit::Graph& graph);

  const ir::Model& model_;
  Observing observing_;
  std::unordered_set<std::string> written_;  ///< attributes, also those that may be written
  mutable std::unordered_map<const ir::Value*, std::optional<c10::IValue>> known_;
  mutable std::unordered_map<const ir::Value*, bool> only_read_;  ///< what is_only_read found
};

}  // namespace tsq::operators
