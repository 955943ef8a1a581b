// A small linear layer that returns float values stays float.
//   linear(observer(x))   →   linear(x), or linear(observer(x)) of bytes that a kernel returns

#include <algorithm>

#include "ir/analysis.h"
#include "passes/context/nodes.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"
#include "passes/place/small_layers.h"

namespace tsq::passes {
namespace {

bool returns_float(const ir::Model& model, const ir::Node* layer) {
  return std::ranges::none_of(layer->output()->uses(), [&](const torch::jit::Use& use) {
    return is_static_rounding(model, use.user);
  });
}

}  // namespace

bool leave_small_layers(ir::Model& model, const PassContext& context) {
  const auto small = small_layers(model, context);
  const bool has_changed = change_nodes(
      model, [&](const ir::Node* node) { return small.contains(node) && returns_float(model, node); },
      [&](ir::Node* node) { compute_in_float(model, node, ir::Reason::SmallLayer); });
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
