// What turns the averages of maps into a gate for them is computed in float where its layers are small, on
// engines whose int8 kernels take many microseconds to begin with.
//   mul(dequantize(quantize(sigmoid(conv(dequantize(quantize(average)))))), x)
//   becomes   mul(sigmoid(unsqueeze(linear(flatten(average)))), x)

#include <algorithm>

#include "backends/kernel_limits.h"
#include "ir/quantize_operators.h"
#include "modules/fault_conditions.h"
#include "modules/kernel_arguments.h"
#include "modules/whole_average.h"
#include "passes/decision_index.h"
#include "passes/gates.h"
#include "passes/layer_in_float.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

constexpr const char* kReason = "it is part of a small gate, which is faster in float";

ir::Weighted* quantized_layer(GraphModule& gm, const Node* node) {
  ir::Weighted* weighted = ir::is_module_call(node) ? ir::weighted_of(ir::call_of(gm, node)) : nullptr;
  return weighted != nullptr && weighted->weight_qparams ? weighted : nullptr;
}

bool is_linear_at_points(const ir::Weighted& weighted) {
  const bool is_kernel_of_one = weighted.weight.dim() == 4 && weighted.weight.size(2) == 1 &&
                                weighted.weight.size(3) == 1 && weighted.groups == 1;
  return is_kernel_of_one && weighted.stride.size() == 2 && weighted.padding_name.empty() &&
         std::ranges::all_of(weighted.padding, [](int64_t padding) { return padding == 0; });
}

class Gates {
 public:
  Gates(GraphModule& gm, Report& report) : gm_(gm), decisions_(report) {}

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
    const bool is_of_points = modules::is_whole_image_average(gm_, gate.average) &&
                              std::ranges::all_of(gate.steps, [&](const Node* step) {
                                return ir::is_module_call(step) || is_activation(gm_, step);
                              });
    for (Node* step : gate.steps) {
      ir::Weighted* weighted = quantized_layer(gm_, step);
      const bool is_layer = weighted != nullptr;
      leave_float(step, is_layer);
      read_exact(step, ir::operands(step).front());
      if (is_layer && is_of_points && is_linear_at_points(*weighted)) make_linear(step, *weighted);
    }
    leave_float(gate.product, /*is_layer=*/false);
    read_exact(gate.product, gate.gate);
  }

  static void read_exact(Node* step, Value* rounded) { ir::replace_operand(step, rounded, exact(rounded)); }

  void leave_float(Node* step, bool is_layer) {
    Decision* decision = decisions_.of(step);
    if (is_layer)
      compute_in_float(gm_, step, decision, kReason);
    else
      report_left_float(decision, kReason);
  }

  /// A linear layer takes a third of the time of a convolution.
  void make_linear(Node* layer, ir::Weighted& weighted) {
    weighted.weight = weighted.weight.detach().flatten(1);
    for (auto* sizes : {&weighted.stride, &weighted.padding, &weighted.output_padding, &weighted.dilation})
      sizes->clear();
    const auto constant = [&](int64_t value) { return modules::constant_before(gm_, layer, value); };
    layer->replaceInput(
        0, modules::insert_before(gm_, layer, "aten::flatten", {layer->input(0), constant(1), constant(-1)}));
    Node* next = layer->next();
    Value* last = modules::constant_before(gm_, next, int64_t{-1});
    Value* column = modules::insert_before(gm_, next, "aten::unsqueeze", {layer->output(), last});
    Value* point = modules::insert_before(gm_, next, "aten::unsqueeze", {column, last});
    layer->output()->replaceAllUsesWith(point);
    column->node()->replaceInput(0, layer->output());
  }

  /// What an activation gives to the average and the product alone is not rounded for them.
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

  GraphModule& gm_;
  DecisionIndex decisions_;
  int64_t largest_weight_ = lowering::largest_weight_at_points(modules::current_engine());
};

}  // namespace

void gate_in_float(GraphModule& gm, Report& report) { Gates(gm, report).run(); }

}  // namespace tsq::passes
