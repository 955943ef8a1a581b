#pragma once

#include <string_view>

#include "ir/model.h"

/// Model::matches: what their operators have, and changes of them.
namespace tsq::passes {

/// The QConfig of a node; none where it has none.
[[nodiscard]] const MaybeQConfig& qconfig_of(const ir::Model& model, const ir::Node* node);

/// Removes matches that have lost their nodes. Records name those that are left.
void remove_empty_matches(ir::Model& model);

/// The operators of a match stay float, and the match has none any more. They lose their QConfig, unless
/// place may quantize them after all.
void leave_match_float(ir::Model& model, ir::Match& match, ir::Reason reason, std::string_view detail = {});

}  // namespace tsq::passes
