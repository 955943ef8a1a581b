#pragma once

#include <string_view>

#include "ir/model.h"

/// Model::matches: what their operators have, and changes of them.
namespace tsq::passes {

/// The QConfig of a node; none where it has none.
[[nodiscard]] const MaybeQConfig& qconfig_of(const ir::Model& model, const ir::Node* node);

/// Whether a row of the table is for values that are rounded by ranges of calibration.
[[nodiscard]] bool takes_static(const BackendPatternConfig& row);
/// Whether a match rounds values by ranges of calibration: its QConfig is for that, and so is its row. A
/// standalone module does in any case.
[[nodiscard]] bool is_static(const ir::Model& model, const ir::Match& match);
/// Whether it rounds values by ranges that are found when the model runs.
[[nodiscard]] bool is_dynamic(const ir::Model& model, const ir::Match& match);
/// Whether a match is a layer with a weight, or may be one: what a module of the user's holds is not known.
[[nodiscard]] bool has_weight(const ir::Model& model, const ir::Match& match);

/// Removes matches that have lost their nodes. Records name those that are left.
void remove_empty_matches(ir::Model& model);

/// The operators of a match stay float, without a QConfig, and the match has none any more.
void leave_match_float(ir::Model& model, ir::Match& match, ir::Reason reason, std::string_view detail = {});
/// They are not observed, but have a QConfig by which place may round their values nevertheless.
void leave_match_unobserved(ir::Model& model, ir::Match& match, ir::Reason reason);

}  // namespace tsq::passes
