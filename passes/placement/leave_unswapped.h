#pragma once

#include <tsq/backend_config.h>

#include "ir/graph_module.h"
#include "passes/match/match_table.h"

namespace tsq::passes {

/// Layers whose class has no reference module in the table (match::reference_module_of) stay float: convert
/// would swap nothing, and what is around them would be rounded in vain.
void leave_unswapped(const ir::GraphModule& gm, const BackendConfig& backend, MatchTable& table);

}  // namespace tsq::passes
