// What turns the averages of maps into a gate for them is computed in float where its layers are small, on
// engines whose int8 kernels take many microseconds to begin with.
//   mul(dequantize(quantize(sigmoid(conv(dequantize(quantize(average)))))), x)
//   becomes   mul(sigmoid(unsqueeze(linear(flatten(average)))), x)

#include <algorithm>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/kernel_limits.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "operators/whole_average.h"
#include "passes/decision_index.h"
#include "passes/placement/gates.h"
#include "passes/placement/layer_in_float.h"
#include "passes/placement/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

constexpr const char* kGateReason = "it is part of a small gate, which is faster in float";

ir::Weighted* quantized_layer(Model& gm, const Node* node) {
  ir::Weighted* weighted = ir::is_module_call(node) ? ir::weighted_of(ir::call_of(gm, node)) : nullptr;
  return weighted != nullptr && weighted->weight_qparams ? weighted : nullptr;
}

bool is_linear_at_points(const ir::Weighted& weighted) {
  const bool is_kernel_of_one = weighted.weight.dim() == 4 && weighted.weight.size(2) == 1 &&
                                weighted.weight.size(3) == 1 && weighted.groups == 1;
  return is_kernel_of_one && weighted.stride.size() == 2 && weighted.padding_name.empty() &&
         std::ranges::all_of(weighted.padding, [](int64_t padding) { return padding == 0; });
}

/// Whether one operator reads a value, rounded or not.
bool is_read_once(const Value* value) {
  while (value->uses().size() == 1) {
    const Node* reader = value->uses().front().user;
    if (reader->kind() != ir::kQuantize && reader->kind() != ir::kDequantize) return true;
    value = reader->output();
  }
  return false;
}

class Gates {
 public:
  Gates(Model& gm, Report& report) : gm_(gm), decisions_(report) {}

  void run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      const auto gate = gate_of(gm_, node);
      if (!gate) continue;
      if (std::ranges::all_of(gate->steps, [&](const Node* step) { return is_small(step); })) compute(*gate);
      take_maps(*gate);
    }
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  bool is_small(const Node* step) {
    const ir::Weighted* weighted = quantized_layer(gm_, step);
    return weighted == nullptr || weighted->weight.numel() <= largest_weight_;
  }

  void compute(const Gate& gate) {
    const bool is_of_points = is_linear_at_points(gate);
    for (Node* step : gate.steps) {
      const bool is_layer = quantized_layer(gm_, step) != nullptr;
      leave_float(step, is_layer);
      read_exact(step, ir::operands(step).front());
      if (is_layer && is_of_points) make_linear(*ir::weighted_of(ir::call_of(gm_, step)));
    }
    leave_float(gate.product, /*is_layer=*/false);
    read_exact(gate.product, gate.gate);
    if (is_of_points) drop_points(gate);
  }

  /// Whether its layers are linear layers of numbers that are written as images of one point.
  bool is_linear_at_points(const Gate& gate) {
    return operators::is_whole_image_average(gm_, gate.average) &&
           std::ranges::all_of(gate.steps, [&](const Node* step) {
             if (!is_read_once(step->output())) return false;
             const ir::Weighted* weighted = quantized_layer(gm_, step);
             return weighted == nullptr ? is_activation(gm_, step) : passes::is_linear_at_points(*weighted);
           });
  }

  static void read_exact(Node* step, Value* rounded) { ir::replace_operand(step, rounded, exact(rounded)); }

  void leave_float(Node* step, bool is_layer) {
    Decision* decision = decisions_.of(step);
    if (is_layer)
      compute_in_float(gm_, step, decision, kGateReason);
    else
      report_left_float(decision, kGateReason);
  }

  /// A linear layer takes a third of the time of a convolution.
  static void make_linear(ir::Weighted& weighted) {
    weighted.weight = weighted.weight.detach().flatten(1);
    for (auto* sizes : {&weighted.stride, &weighted.padding, &weighted.output_padding, &weighted.dilation})
      sizes->clear();
  }

  void drop_points(const Gate& gate) {
    Node* first = gate.steps.front();
    const auto constant = [&](Node* before, int64_t value) {
      return ir::constant_before(gm_, before, value);
    };
    Value* average = ir::operands(first).front();
    ir::replace_operand(
        first, average,
        ir::insert_before(gm_, first, "aten::flatten", {average, constant(first, 1), constant(first, -1)}));
    Node* product = gate.product;
    Value* numbers = gate.steps.back()->output();
    Value* last = constant(product, -1);
    Value* column = ir::insert_before(gm_, product, "aten::unsqueeze", {numbers, last});
    ir::replace_operand(product, numbers, ir::insert_before(gm_, product, "aten::unsqueeze", {column, last}));
  }

  /// What only the average and the product read of an activation is not rounded for them.
  void take_maps(const Gate& gate) {
    if (!is_activation(gm_, exact(gate.gated)->node())) return;
    const Node* quantize = gate.gated->node()->input(0)->node();
    for (const torch::jit::Use& use : quantize->output()->uses()) {
      if (use.user->kind() != ir::kDequantize) return;
      for (const Node* reader : ir::users(use.user->output())) {
        if (reader != gate.product && reader != gate.average) return;
      }
    }
    for (const torch::jit::Use& use : quantize->output()->uses())
      use.user->output()->replaceAllUsesWith(quantize->input(0));
  }

  Model& gm_;
  DecisionIndex decisions_;
  int64_t largest_weight_ = kernels::largest_weight_at_points(kernels::current_engine());
};

}  // namespace

void gate_in_float(Model& gm, Report& report) { Gates(gm, report).run(); }

}  // namespace tsq::passes
