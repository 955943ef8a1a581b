#pragma once

#include <tsq/qconfig_mapping.h>

#include <string>
#include <vector>

#include "ir/match.h"
#include "passes/observe/target_infos.h"

/// Whether the backend takes what a QConfig asks for (D-05 … D-09).
namespace tsq::passes {

/// The first check that failed of each DTypeConfig of the match's row, before the first that takes it.
std::vector<std::string> refusals_before_taken(const TargetInfos& infos, const ir::Match& match,
                                               const MaybeQConfig& qconfig);

/// The first check of each DTypeConfig that failed; empty when one of them takes the match.
std::vector<std::string> refusals(const TargetInfos& infos, const ir::Match& match,
                                  const MaybeQConfig& qconfig);

}  // namespace tsq::passes
