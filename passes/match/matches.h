#pragma once

#include <string_view>

#include "ir/model.h"

/// Changes of Model::matches.
namespace tsq::passes {

/// Removes matches that have lost their nodes. Records name those that are left.
void remove_empty_matches(ir::Model& model);

/// The operators of a match stay float, and the match has none any more. They lose their QConfig, unless
/// place may quantize them after all.
void leave_match_float(ir::Model& model, ir::Match& match, ir::Reason reason, std::string_view detail = {});

}  // namespace tsq::passes
