#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/edit.h"
#include "passes/context/pass_context.h"
#include "passes/rewrite/expression.h"
#include "passes/rewrite/expression_matcher.h"

/// Operators that exporters write out as several: one table, one row a way to write one. A test goes through
/// every row with random tensors and shows that both sides are equal.
namespace tsq::passes {

struct RewriteRule {
  std::string_view name{};
  expressions::Expression pattern{};
  const char* replacement{};  ///< "aten::silu"
  /// What the replacement is called with; null: x alone.
  std::vector<ir::Value*> (*arguments)(const ir::Model& model, const ir::Rewriter& in_front,
                                       const Leaves& leaves){};
  /// What else must be true; null: nothing.
  bool (*guard)(const ir::Model& model, const Leaves& leaves){};
};

/// SiLU, hardswish and GELU.
std::span<const RewriteRule> activation_rules();
/// LayerNorm over the last dimension.
std::span<const RewriteRule> layer_norm_rules();

/// Puts the replacements of the rules in the places of what matches them, one rule after the other. Returns
/// whether there was any.
bool apply_rules(ir::Model& model, std::span<const RewriteRule> rules);

}  // namespace tsq::passes
