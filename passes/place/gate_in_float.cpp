// What turns the averages of maps into a gate for them is computed in float where its layers are small, on
// engines whose int8 kernels take many microseconds to start.
//   mul(observer(sigmoid(conv(observer(average)))), x)   becomes   mul(sigmoid(conv(average)), x)

#include <algorithm>

#include "backends/kernels/costs.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "operators/images/whole_average.h"
#include "passes/place/gates.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

class Gates {
 public:
  Gates(Model& model, const PassContext& context)
      : model_(model),
        context_(context),
        largest_weight_(kernels::costs_of(context.target).largest_weight_at_points) {}

  /// Whether it found any.
  bool run() {
    bool has_changed = false;
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      const auto gate = rounded_gate_of(model_, node);
      if (!gate) continue;
      const bool is_small_gate =
          std::ranges::all_of(gate->steps, [&](const Node* step) { return is_small(step); });
      if (is_small_gate) compute(*gate);
      const bool takes_exact_maps = take_maps(*gate);
      has_changed = has_changed || is_small_gate || takes_exact_maps;
    }
    ir::eliminate_dead_code(*model_.graph);
    return has_changed;
  }

 private:
  ir::Weighted* layer(const Node* step) { return int8_layer(model_, context_, step); }

  bool is_small(const Node* step) {
    const ir::Weighted* weighted = layer(step);
    return weighted == nullptr || weighted->weight.numel() <= largest_weight_;
  }

  void compute(const Gate& gate) {
    for (Node* step : gate.steps) {
      ir::Weighted* weighted = layer(step);
      if (weighted != nullptr) {
        compute_in_float(model_, step, ir::Reason::SmallGate);
      } else {
        leave_float(step);
      }
      read_exact(step, ir::operands(step).front());
    }
    leave_float(gate.product);
    read_exact(gate.product, gate.gate);
  }

  void leave_float(Node* step) {
    if (ir::placement_of(model_, step) == ir::Placement::Float) return;
    ir::leave_float(model_, step, ir::Placement::Float, ir::Reason::SmallGate);
  }

  void read_exact(Node* step, Value* rounded) const {
    ir::replace_operand(step, rounded, exact(model_, rounded));
  }

  /// What only the average and the product read of an activation is not rounded for them.
  bool take_maps(const Gate& gate) const {
    Value* maps = exact(model_, gate.gated);
    if (!is_activation(model_, maps->node())) return false;
    Value* rounded = before_channel_observers(model_, gate.gated);
    const bool is_read_by_others = std::ranges::any_of(ir::users(rounded), [&](const Node* reader) {
      return reader != gate.product && reader != gate.average;
    });
    if (is_read_by_others) return false;
    rounded->replaceAllUsesWith(maps);
    return true;
  }

  Model& model_;
  const PassContext& context_;
  int64_t largest_weight_;
};

}  // namespace

bool gate_in_float(Model& model, const PassContext& context) { return Gates(model, context).run(); }

}  // namespace tsq::passes
