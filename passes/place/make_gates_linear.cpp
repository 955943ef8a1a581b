// The layers of a gate that is computed in float are linear layers of numbers, written as images of one
// point. A linear layer takes a third of the time of a convolution.
//   mul(sigmoid(conv(average)), x)   becomes   mul(unsqueeze(sigmoid(linear(flatten(average)))), x)

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/images/whole_average.h"
#include "passes/context/nodes.h"
#include "passes/place/gates.h"
#include "passes/place/passes.h"

namespace tsq::passes {
namespace {

bool is_linear_at_points(const ir::Weighted& weighted) {
  const bool is_kernel_of_one = weighted.weight.dim() == 4 && weighted.weight.size(2) == 1 &&
                                weighted.weight.size(3) == 1 && weighted.groups == 1;
  return is_kernel_of_one && weighted.stride.size() == 2 && weighted.padding_name.empty() &&
         std::ranges::all_of(weighted.padding, [](int64_t padding) { return padding == 0; });
}

/// Whether one operator reads a value, also after it was rounded.
bool is_read_once(const Value* value) {
  if (value->uses().size() != 1) return false;
  const Node* reader = value->uses().front().user;
  return !ir::is_observer(reader) || is_read_once(reader->output());
}

class LinearGates {
 public:
  explicit LinearGates(Model& model) : model_(model) {}

  bool run(Node* product) {
    const auto gate = gate_of(model_, product);
    if (!gate || !is_in_float(*gate) || !is_linear(*gate)) return false;
    for (Node* step : gate->steps) {
      if (ir::Weighted* weighted = weighted_at(model_, step)) make_linear(*weighted);
    }
    drop_points(*gate);
    return true;
  }

 private:
  [[nodiscard]] bool is_in_float(const Gate& gate) const {
    return std::ranges::all_of(gate.steps, [&](const Node* step) {
      return weighted_at(model_, step) == nullptr || ir::placement_of(model_, step) == ir::Placement::Float;
    });
  }

  [[nodiscard]] bool is_linear(const Gate& gate) const {
    return operators::is_whole_image_average(model_, gate.average) &&
           std::ranges::all_of(gate.steps, [&](const Node* step) {
             if (!is_read_once(step->output())) return false;
             const ir::Weighted* weighted = weighted_at(model_, step);
             return weighted == nullptr ? is_activation(model_, step) : is_linear_at_points(*weighted);
           });
  }

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
    Node* last = gate.steps.back();
    const ir::Rewriter after_last(model_, last->next());
    const std::vector<torch::jit::Use> readers = last->output()->uses();
    Value* end = after_last.constant(int64_t{-1});
    Value* column = after_last.op("aten::unsqueeze", {last->output(), end});
    Value* points = after_last.op("aten::unsqueeze", {column, end});
    for (const torch::jit::Use& use : readers) use.user->replaceInput(use.offset, points);
  }

  Model& model_;
};

}  // namespace

bool make_gates_linear(Model& model, const PassContext& /*context*/) {
  return change_nodes(model, [&](Node* node) { return LinearGates(model).run(node); });
}

}  // namespace tsq::passes
