// What mean errors are measured against: the model that computes in float what the rounded one computes.

#include <algorithm>
#include <memory>

#include "passes/numerics/passes.h"

namespace tsq::passes {
namespace {

/// Standalone modules would take what runs through the float graph for calibration data.
bool has_opaque_modules(const ir::Model& model) {
  return std::ranges::any_of(model.calls, [](const ir::ModuleCall& call) { return ir::is_opaque(call); });
}

}  // namespace

bool keep_before_rounding(ir::Model& model, const PassContext& context) {
  const bool finds_mean_errors = !context.samples.empty() && model.mean_errors.empty();
  if ((!finds_mean_errors && !context.is_for_noise) || has_opaque_modules(model)) return false;
  model.before_rounding = std::make_shared<const ir::Model>(model.copy());
  return true;
}

}  // namespace tsq::passes
