// Recurrent layers and cells → the engine's dynamic kernels
// (torch/ao/quantization/fx/_lower_to_native_backend.py, _lower_dynamic_weighted_ref_module;
// torch/ao/nn/quantized/dynamic/modules/rnn.py).
//   LSTM(dequantize(quantize_per_tensor_dynamic(x)), hx)   →   the same module with aten::quantized_lstm

#include <tsq/error.h>

#include <map>

#include "backends/kernels/dynamic_kernels.h"
#include "backends/kernels/engine_packing.h"
#include "backends/kernels/fault_conditions.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "operators/dynamic_input.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"
#include "torchscript/modules/recurrent.h"

namespace tsq::passes {
namespace {

using ir::ModuleCall;
using ir::Reason;
using torch::jit::Module;

class RecurrentLowering {
 public:
  RecurrentLowering(Model& model, const PassContext& context) : model_(model), context_(context) {}

  bool run() {
    bool has_changed = false;
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (!ir::is_module_call(node) || (ir::stays_float(model_, node) && !refusal_in_plan(model_, node)))
        continue;
      if (!torchscript::is_recurrent(ir::call_of(model_, node).type) || !is_dynamic(node)) continue;
      lower(node);
      has_changed = true;
    }
    ir::eliminate_dead_code(*model_.graph);
    return has_changed;
  }

 private:
  void lower(Node* op) {
    ModuleCall& call = ir::call_of(model_, op);
    // Packed sequences are no tensors and have no quantize node in front.
    const auto input = operators::dynamic_input(op->input(0));
    const Refusal refusal = put_kernels_into(op, call);
    call.recurrent_qparams.clear();
    // A state that is the input itself was observed with it (D-20).
    if (input) ir::replace_operand(op, op->input(0), input->value);
    if (!refusal.why.empty()) leave_without_kernel(model_, op, refusal);
  }

  bool is_dynamic(const Node* op) const {
    const QConfig* qconfig = ir::observed_qconfig(model_, op);
    return qconfig != nullptr && resolve(qconfig->activation).is_dynamic;
  }

  /// Says nothing, or why the engine has none.
  Refusal put_kernels_into(Node* op, ModuleCall& call) {
    if (auto refusal = refusal_in_plan(model_, op)) return *std::move(refusal);
    const auto offer = kernels::recurrent_offer(context_.target, model_, op);
    if (offer.refusal || call.recurrent_qparams.empty()) return offer.refusal.value_or(Refusal{});
    const auto key = std::make_pair(static_cast<const void*>(call.module->_ivalue().get()), call.method);
    try {
      if (!made_.contains(key))
        made_.emplace(key, torchscript::dynamic_recurrent(call, call.recurrent_qparams, reduces_range(op),
                                                          loses_empty_batch(op, offer.row->kernel)));
    } catch (const Error& error) {
      return {Reason::PackingRefused, error.problem()};
    }
    set_dynamic_kernel(model_, op, offer.row->kernel, call.recurrent_qparams.back().dtype);
    call.module = made_.at(key);
    call.method = "forward";
    return {};
  }

  /// PyTorch's dynamic layers always ask for it.
  bool reduces_range(const Node* op) const {
    return fault_of(op, "quantized::make_quantized_cell_params_dynamic", kernels::Precaution::FullRange) ==
           nullptr;
  }

  bool loses_empty_batch(const Node* op, std::string_view kernel) const {
    return fault_of(op, kernel, kernels::Precaution::ShapedWhenEmpty) != nullptr;
  }

  const kernels::KernelFault* fault_of(const Node* op, std::string_view kernel,
                                       kernels::Precaution precaution) const {
    return kernels::fault_of({.target = context_.target, .model = model_, .op = op, .kernel = kernel},
                             precaution);
  }

  Model& model_;
  const PassContext& context_;
  std::map<std::pair<const void*, std::string>, Module> made_;
};

}  // namespace

bool lower_recurrent(Model& model, const PassContext& context) {
  const kernels::EnginePacking engine(context.target);  // each layer is packed as its module is written
  return RecurrentLowering(model, context).run();
}

}  // namespace tsq::passes
