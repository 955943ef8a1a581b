#pragma once

#include <tsq/backend_config.h>

#include <unordered_map>
#include <vector>

#include "ir/analysis.h"

namespace tsq::match {

/// A pattern's tree laid over nodes. `node` is null where match_all or a literal stood.
struct MatchedNode {
  const Pattern* pattern{};
  ir::Node* node{};
  ir::Value* value{};  ///< what the argument is; null for the last operator
  std::vector<MatchedNode> args{};
};

/// Matches patterns against nodes; looks PyTorch's spellings of a node up once.
class Matcher {
 public:
  explicit Matcher(const ir::Model& model) : model_(model) {}

  /// `node` as the last operator of `pattern` (C-03 … C-08). The last node may have any number of users,
  /// inner ones one.
  std::optional<MatchedNode> match(ir::Node* node, const Pattern& pattern);
  /// The spellings of a node.
  const std::vector<Symbol>& targets(const ir::Node* node);

 private:
  bool match_node(ir::Node* node, const Pattern& pattern, MatchedNode& result);
  [[nodiscard]] bool has_arguments_of(const ir::Node* node, const std::vector<ir::Argument>& arguments,
                                      const Pattern& pattern) const;
  bool match_value(ir::Value* value, const ir::Node* user, const Pattern& pattern, MatchedNode& result);

  const ir::Model& model_;
  std::unordered_map<const ir::Node*, std::vector<Symbol>> targets_;
};

/// The nodes of a match, last first, match_all left out.
std::vector<ir::Node*> nodes_of(const MatchedNode& matched);
/// The matched operators in data-flow order, match_all left out.
[[nodiscard]] std::vector<const MatchedNode*> in_forward_order(const MatchedNode& matched);
/// The row's root node.
const MatchedNode& root_of(const MatchedNode& matched, const BackendPatternConfig& row);
/// The values beside the root's branch that become further inputs of the fused module, as they are
/// now: an earlier fusion may have replaced what was matched.
std::vector<ir::Value*> extra_inputs_of(const MatchedNode& matched, const BackendPatternConfig& row);

/// Rows in the order in which they are tried (C-01): tuples by number of symbols, longest first, then
/// singles; ties in table order.
std::vector<const BackendPatternConfig*> sorted_rows(const BackendConfig& backend);

}  // namespace tsq::match
