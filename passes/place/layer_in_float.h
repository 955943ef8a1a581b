#pragma once

#include <tsq/report.h>

#include "ir/model.h"

namespace tsq::passes {

/// An operator's entry of the report, or null, says why it is left float after all.
void report_left_float(Decision* decision, const char* reason);

/// A reference layer is computed in float after all, with its float weight. It reads what was rounded for it
/// alone not rounded; what it returns is rounded as before. `decision` is its entry of the report, or null.
void compute_in_float(ir::Model& gm, ir::Node* layer, Decision* decision, const char* reason);

}  // namespace tsq::passes
