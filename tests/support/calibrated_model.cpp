#include "support/calibrated_model.h"

#include <algorithm>
#include <stdexcept>

#include "ir/analysis.h"
#include "passes/convert/passes.h"
#include "passes/numerics/passes.h"
#include "passes/place/passes.h"
#include "pipeline/stage.h"

namespace tsq::testing {

CalibratedModel calibrated_model(const Prepared& prepared) {
  const detail::Stage& stage = detail::stage_of(prepared);
  return {.model = stage.model.copy(), .context = detail::context_of(stage)};
}

void make_reference(CalibratedModel& calibrated) {
  auto& [model, context] = calibrated;
  passes::place_by_table(model, context);
  passes::find_qparams(model, context);
  passes::quantize_weights(model, context);
  passes::convert(model, context);
}

ir::ModuleCall& call_of_layer(ir::Model& model, const std::string& path) {
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_module_call(node) && ir::call_of(model, node).path == path) return ir::call_of(model, node);
  }
  throw std::runtime_error("no layer " + path);
}

ir::Weighted& layer(ir::Model& model, const std::string& path) {
  ir::Weighted* weighted = ir::weighted_of(call_of_layer(model, path));
  if (weighted == nullptr) throw std::runtime_error(path + " has no weight");
  return *weighted;
}

std::size_t count(const ir::Model& model, const std::string& kind) {
  const auto nodes = ir::nodes_in_order(*model.graph);
  return static_cast<std::size_t>(std::ranges::count_if(
      nodes, [&](const ir::Node* node) { return node->kind().toQualString() == kind; }));
}

std::string reported_equalization(const ir::Model& model, const std::string& path) {
  const auto found = std::ranges::find_if(model.records, [&](const ir::NodeRecord& record) {
    return record.is_reported && record.decision.layer == path;
  });
  return found == model.records.end() ? "no entry" : found->decision.equalization;
}

}  // namespace tsq::testing
