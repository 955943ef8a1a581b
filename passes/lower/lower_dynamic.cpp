// Weighted operators whose input is quantized at run time → the engine's dynamic kernels
// (torch/ao/quantization/fx/_lower_to_native_backend.py, _lower_dynamic_weighted_ref_module and
// _lower_dynamic_weighted_ref_functional; torch/ao/nn/quantized/dynamic).
//   linear(dequantize(quantize_per_tensor_dynamic(x)))   →   quantized::linear_dynamic(x, packed,
//   reduce_range)

#include <fmt/format.h>

#include "backends/kernels/dynamic_kernels.h"
#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/layer_kind.h"
#include "backends/kernels/packed.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "operators/dynamic_input.h"
#include "operators/functional_weighted.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"

namespace tsq::passes {
namespace {

using ir::Reason;
using kernels::DynamicKernel;
using kernels::PostOp;
using operators::DynamicInput;

class DynamicLowering : public KernelLowering {
 public:
  using KernelLowering::KernelLowering;

  void run() {
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (node->inputs().empty() || ir::stays_float(model_, node)) continue;
      if (ir::is_module_call(node)) {
        lower_module(node);
      } else if (node->kind().is_aten()) {
        lower_functional(node);
      }
    }
  }

 private:
  // L-09.
  void lower_module(Node* op) {
    ir::ModuleCall& call = ir::call_of(model_, op);
    ir::Weighted* weighted = ir::weighted_of(call);
    const auto input = operators::dynamic_input(op->input(0));
    if (weighted == nullptr || !weighted->weight_qparams || !input || op->inputs().size() != 1) return;
    const DynamicKernel* row = kernel_of(op, weighted->weight_qparams->dtype);
    if (row == nullptr) return;
    if (const auto refusal = refusal_by_engine(op, *row, weighted)) {
      weighted->weight_qparams.reset();
      return stay_float(op, *input, *refusal);
    }
    Value* packed = packed_for(op, *row, *weighted, call.path, op);
    // PyTorch's dynamic modules always reduce the range, its functions where the engine asks for it.
    replace(op, op, *row, {input->value, packed}, ir::constant_before(op, true));
  }

  // L-11; L-05: a function that is configured not to be quantized stays.
  void lower_functional(Node* op) {
    const ir::NodeRecord* record = ir::record_of(model_, op);
    if (op->inputs().size() < 2 || (record != nullptr && !record->lookup.qconfig)) return;
    const auto input = operators::dynamic_input(op->input(0));
    const auto dtype = operators::functional_weight_dtype(op);
    if (!input || !dtype) return;
    Node* relu = relu_after(op);
    const DynamicKernel* row = kernel_of(op, *dtype, relu == nullptr ? PostOp::None : PostOp::ReLU);
    if (row == nullptr) {
      relu = nullptr;
      row = kernel_of(op, *dtype);
    }
    if (row == nullptr) return;
    const auto weighted = operators::functional_parameters(model_, op);
    if (const auto refusal = refusal_by_engine(op, *row, weighted ? &*weighted : nullptr)) {
      op->replaceInput(1, op->input(1)->node()->input(0)->node()->input(0));
      return stay_float(op, *input, *refusal);
    }
    Value* packed = weighted ? packed_for(op, *row, *weighted, ir::scope_of(model_, op).path, op)
                             : kernels::packed_at_run(op, row->prepack, op);
    if (packed != nullptr)
      replace(relu == nullptr ? op : relu, op, *row, {input->value, packed}, input->reduce_range);
  }

  /// Empty where the engine can run an operator. `weighted`: null where its weight is computed when it runs.
  std::optional<Refusal> refusal_by_engine(const Node* op, const DynamicKernel& row,
                                           const ir::Weighted* weighted) const {
    for (const std::string_view kernel : {row.prepack, row.kernel}) {
      if (weighted == nullptr && kernel == row.kernel) continue;
      const kernels::KernelUse use = use_of(op, kernel, /*input=*/nullptr, weighted);
      if (const auto* fault = kernels::fault_of(use, kernels::Precaution::KeepReference))
        return Refusal{Reason::KernelFault, std::string(fault->reason)};
    }
    const std::string* refusal =
        weighted == nullptr ? nullptr : refusal_of(refusals_, row.prepack, *weighted);
    return refusal == nullptr ? std::nullopt : std::optional(Refusal{Reason::PackingRefused, *refusal});
  }

  /// The kernel of a layer that does what its class does, or the operator `after` it, besides.
  const DynamicKernel* kernel_of(const Node* op, c10::ScalarType dtype, PostOp after = PostOp::None) const {
    const auto kind = kernels::layer_kind(model_, op);
    return kind ? kernels::dynamic_kernel(kind->op, after == PostOp::None ? kind->post_op : after, dtype)
                : nullptr;
  }

  /// The ReLU that alone reads an operator's output; null where there is none.
  Node* relu_after(const Node* op) const {
    Node* user = only_user(op);
    const bool is_relu = user != nullptr && user->outputs().size() == 1 && post_op_of(user) == PostOp::ReLU;
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
