// Operators of a calibrated model that stay float after all.
//   a → obs → b → obs → c, b kept float   becomes   a → obs → b, b → obs → c; obs in front of b goes where a
//   is float

#include "ir/analysis.h"
#include "passes/context/nodes.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"

namespace tsq::passes {
namespace {

using ir::NodeRecord;

std::string name_of(const Node* node) {
  return node->outputs().empty() ? std::string() : node->outputs().front()->debugName();
}

}  // namespace

bool keep_float(Model& model, const PassContext& context) {
  const auto& reasons = context.kept_float;
  if (reasons.empty()) return false;
  bool has_changed = false;
  std::vector<Node*> kept;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    NodeRecord* record = ir::is_observer(node) ? nullptr : ir::record_of(model, node);
    if (record == nullptr) continue;
    const auto reason = reasons.find(name_of(node));
    if (reason == reasons.end() && record->observed) continue;
    kept.push_back(node);
    if (reason != reasons.end()) {
      leave_out(model, node, ir::Reason::LeftOut, reason->second);
      has_changed = true;
    } else {
      // One that led to nothing must not keep an observer beside it (K-03).
      has_changed = has_changed || record->lookup.qconfig.has_value();
      record->lookup.qconfig.reset();
    }
  }
  for (Node* node : kept) has_changed = read_exact_values(model, node) || has_changed;
  return has_changed;
}

}  // namespace tsq::passes
