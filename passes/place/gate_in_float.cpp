// What turns the averages of maps into a gate for them is computed in float where its layers are small, on
// engines whose int8 kernels take many microseconds to start.
//   mul(observer(sigmoid(conv(observer(average)))), x)
//   becomes   mul(sigmoid(unsqueeze(linear(flatten(average)))), x)

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

bool is_linear_at_points(const ir::Weighted& weighted) {
  const bool is_kernel_of_one = weighted.weight.dim() == 4 && weighted.weight.size(2) == 1 &&
                                weighted.weight.size(3) == 1 && weighted.groups == 1;
  return is_kernel_of_one && weighted.stride.size() == 2 && weighted.padding_name.empty() &&
         std::ranges::all_of(weighted.padding, [](int64_t padding) { return padding == 0; });
}

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
      const auto gate = gate_of(model_, node);
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
    const bool is_of_points = is_linear_at_points(gate);
    for (Node* step : gate.steps) {
      ir::Weighted* weighted = layer(step);
      if (weighted != nullptr) {
        compute_in_float(model_, step, ir::Reason::SmallGate);
      } else {
        leave_float(step);
      }
      read_exact(step, ir::operands(step).front());
      if (weighted != nullptr && is_of_points) make_linear(*weighted);
    }
    leave_float(gate.product);
    read_exact(gate.product, gate.gate);
    if (is_of_points) drop_points(gate);
  }

  void leave_float(Node* step) {
    if (ir::placement_of(model_, step) == ir::Placement::Float) return;
    ir::leave_float(model_, step, ir::Placement::Float, ir::Reason::SmallGate);
  }

  /// Whether its layers are linear layers of numbers that are written as images of one point.
  bool is_linear_at_points(const Gate& gate) {
    return operators::is_whole_image_average(model_, gate.average) &&
           std::ranges::all_of(gate.steps, [&](const Node* step) {
             if (!is_read_once(step->output())) return false;
             const ir::Weighted* weighted = layer(step);
             return weighted == nullptr ? is_activation(model_, step)
                                        : passes::is_linear_at_points(*weighted);
           });
  }

  /// Whether one operator reads a value, rounded or not.
  bool is_read_once(const Value* value) const {
    while (value->uses().size() == 1) {
      const Node* reader = value->uses().front().user;
      if (!ir::is_observer(reader)) return true;
      value = reader->output();
    }
    return false;
  }

  void read_exact(Node* step, Value* rounded) const {
    ir::replace_operand(step, rounded, exact(model_, rounded));
  }

  /// A linear layer takes a third of the time of a convolution.
  static void make_linear(ir::Weighted& weighted) {
    weighted.weight = weighted.weight.detach().flatten(1);
    for (auto* sizes : {&weighted.stride, &weighted.padding, &weighted.output_padding, &weighted.dilation})
      sizes->clear();
  }

  void drop_points(const Gate& gate) {
    Node* first = gate.steps.front();
    const ir::Rewriter before_first(model_, first);
    Value* average = ir::operands(first).front();
    Value* flat = before_first.op(
        "aten::flatten", {average, before_first.constant(int64_t{1}), before_first.constant(int64_t{-1})});
    ir::replace_operand(first, average, flat);
    const ir::Rewriter before_product(model_, gate.product);
    Value* numbers = gate.steps.back()->output();
    Value* last = before_product.constant(int64_t{-1});
    Value* column = before_product.op("aten::unsqueeze", {numbers, last});
    ir::replace_operand(gate.product, numbers, before_product.op("aten::unsqueeze", {column, last}));
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
