// Weighted operators whose input is quantized at run time → the engine's dynamic kernels
// (torch/ao/quantization/fx/_lower_to_native_backend.py, _lower_dynamic_weighted_ref_module and
// _lower_dynamic_weighted_ref_functional; torch/ao/nn/quantized/dynamic).
//   linear(dequantize(quantize_per_tensor_dynamic(x)))   →   quantized::linear_dynamic(x, packed,
//   reduce_range)

#include "backends/kernels/dynamic_kernels.h"
#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/packed.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "operators/dynamic_input.h"
#include "operators/functional_weighted.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"

namespace tsq::passes {
namespace {

using kernels::DynamicKernel;
using operators::DynamicInput;

class DynamicLowering : public KernelLowering {
 public:
  using KernelLowering::KernelLowering;

  void run() {
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      const auto refusal = refusal_in_plan(model_, node);
      if (node->inputs().empty() || (ir::stays_float(model_, node) && !refusal)) continue;
      if (ir::is_module_call(node)) {
        lower_module(node, refusal);
      } else if (node->kind().is_aten()) {
        lower_functional(node, refusal);
      }
    }
  }

 private:
  // L-09.
  void lower_module(Node* op, const std::optional<Refusal>& planned) {
    ir::ModuleCall& call = ir::call_of(model_, op);
    ir::Weighted* weighted = ir::weighted_of(call);
    const auto input = operators::dynamic_input(op->input(0));
    if (weighted == nullptr || !weighted->weight_qparams || !input || op->inputs().size() != 1) return;
    const auto offer = kernels::dynamic_offer(context_.target, model_, op, /*relu=*/nullptr);
    if (!offer) return;
    if (const auto refusal = planned ? planned : refusal_of(offer, weighted)) {
      weighted->weight_qparams.reset();
      return stay_float(op, *input, *refusal);
    }
    Value* packed = packed_for(op, *offer.row, *weighted, call.path, op);
    // PyTorch's dynamic modules always reduce the range, its functions where the engine asks for it.
    replace(op, op, *offer.row, {input->value, packed}, ir::constant_before(op, true));
  }

  // L-11; L-05: a function that is configured not to be quantized stays.
  void lower_functional(Node* op, const std::optional<Refusal>& planned) {
    const ir::NodeRecord* record = ir::record_of(model_, op);
    if (op->inputs().size() < 2 || (record != nullptr && !record->lookup.qconfig)) return;
    const auto input = operators::dynamic_input(op->input(0));
    if (!input || !operators::functional_weight_dtype(op)) return;
    Node* relu = relu_after(op);
    auto offer = kernels::dynamic_offer(context_.target, model_, op, relu);
    if (!offer) {
      relu = nullptr;
      offer = kernels::dynamic_offer(context_.target, model_, op, relu);
    }
    if (!offer) return;
    const auto weighted = operators::functional_parameters(model_, op);
    if (const auto refusal = planned ? planned : refusal_of(offer, weighted ? &*weighted : nullptr)) {
      op->replaceInput(1, op->input(1)->node()->input(0)->node()->input(0));
      return stay_float(op, *input, *refusal);
    }
    Value* packed = weighted ? packed_for(op, *offer.row, *weighted, ir::scope_of(model_, op).path, op)
                             : kernels::packed_at_run(op, offer.row->prepack, op);
    replace(relu == nullptr ? op : relu, op, *offer.row, {input->value, packed}, input->reduce_range);
  }

  /// The ReLU that alone reads an operator's output; null where there is none.
  Node* relu_after(const Node* op) const {
    Node* user = only_user(op);
    const bool is_relu = user != nullptr && user->outputs().size() == 1 &&
                         kernels::post_op_of(model_, user) == kernels::PostOp::ReLU;
    return is_relu ? user : nullptr;
  }

  /// Puts the kernel in place of `op` and what is after it up to `last`.
  void replace(Node* last, Node* op, const DynamicKernel& row, std::vector<Value*> inputs,
               Value* reduce_range) {
    if (row.takes_reduce_range) inputs.push_back(full_range_where_ignored(op, row, reduce_range));
    Value* made = insert_kernel(model_, op, row.kernel, inputs, op);
    set_dynamic_kernel(model_, op, row.kernel, row.weight_dtype);
    ir::take_record(made->node(), op);
    last->output()->replaceAllUsesWith(made);
    has_changed_ = true;
  }

  Value* full_range_where_ignored(Node* op, const DynamicKernel& row, Value* reduce_range) {
    const bool is_ignored =
        kernels::fault_of(use_of(op, row.kernel), kernels::Precaution::FullRange) != nullptr;
    return is_ignored ? ir::constant_before(op, false) : reduce_range;
  }

  void stay_float(Node* op, const DynamicInput& input, const Refusal& refusal) {
    op->replaceInput(0, input.value);
    leave_without_kernel(model_, op, refusal);
    has_changed_ = true;
  }
};

}  // namespace

bool lower_dynamic(Model& model, const PassContext& context) {
  return lower_with_refusals<DynamicLowering>(model, context);
}

}  // namespace tsq::passes
