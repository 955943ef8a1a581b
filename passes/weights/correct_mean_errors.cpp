// Bias correction with what rounding was seen to add to each layer's sums, where the samples are known.

#include "ir/analysis.h"
#include "passes/weights/equal_parameters.h"
#include "passes/weights/layer_bias.h"
#include "passes/weights/mean_errors.h"
#include "passes/weights/passes.h"

namespace tsq::passes {

bool correct_mean_errors(ir::Model& model, const PassContext& context) {
  if (context.is_for_noise) return false;
  if (model.mean_errors.empty() && model.before_rounding != nullptr)
    model.mean_errors = mean_errors(*model.before_rounding, model, context);
  model.before_rounding.reset();
  bool has_changed = false;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_module_call(node)) continue;
    ir::Weighted* weighted = ir::weighted_of(ir::call_of(model, node));
    const auto error = model.mean_errors.find(node->output()->debugName());
    if (weighted == nullptr || !weighted->weight_qparams || error == model.mean_errors.end()) continue;
    take_off_bias(*weighted, error->second);
    has_changed = true;
  }
  if (has_changed) join_equal_parameters(model);
  return has_changed;
}

}  // namespace tsq::passes
