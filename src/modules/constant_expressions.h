#pragma once

#include <optional>
#include <string>
#include <unordered_set>

#include "ir/graph_module.h"

namespace tsq::modules {

/// What a graph computes from constants and from attributes that it only reads.
class ConstantExpressions {
 public:
  explicit ConstantExpressions(const ir::GraphModule& gm);

  /// The value; empty for what depends on the model's inputs or on attributes that may change.
  [[nodiscard]] std::optional<c10::IValue> value_of(const ir::Value* value) const;

 private:
  [[nodiscard]] std::optional<c10::IValue> computed(const ir::Node* node, std::size_t output) const;

  const ir::GraphModule& gm_;
  std::unordered_set<std::string> written_;  ///< attributes, also those that may be written
};

}  // namespace tsq::modules
