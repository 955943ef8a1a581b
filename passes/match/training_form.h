#pragma once

#include <tsq/backend_config.h>
#include <tsq/recipe_options.h>

#include <string>

#include "ir/model.h"
#include "match/matcher.h"

/// Which layers train as one.
namespace tsq::passes {

/// The batch norm of a match; null where there is none.
[[nodiscard]] const ir::Node* batch_norm_of(const ir::Model& model, const match::MatchedNode& tree);

/// Rows whose fused module FX cannot train have none in recipe fx: FX stops the whole model there (QT-08,
/// QT-20). The layers in it are fused by shorter rows, or stay by themselves. Recipe best trains them.
[[nodiscard]] bool has_training_form(const BackendPatternConfig& row, Recipe recipe);

/// Whether the row has such a form, and its batch norm, if any, statistics and a factor for each of the
/// layer's channels (QT-07, which FX asserts).
[[nodiscard]] bool can_train_together(const ir::Model& model, const BackendPatternConfig& row,
                                      const match::MatchedNode& tree, Recipe recipe);

/// Why the layers of such a match stay apart, for the report.
[[nodiscard]] std::string why_apart(const BackendPatternConfig& row, Recipe recipe);

}  // namespace tsq::passes
