// Recurrent layers and cells → the engine's dynamic kernels
// (torch/ao/quantization/fx/_lower_to_native_backend.py, _lower_dynamic_weighted_ref_module;
// torch/ao/nn/quantized/dynamic/modules/rnn.py).
//   LSTM(dequantize(quantize_per_tensor_dynamic(x)), hx)   →   the same module with aten::quantized_lstm

#include <fmt/format.h>
#include <tsq/error.h>

#include <map>

#include "backends/kernels/dynamic_kernels.h"
#include "backends/kernels/fault_conditions.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/dynamic_input.h"
#include "passes/decision_index.h"
#include "passes/lower/passes.h"
#include "torchscript/recurrent.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::ModuleCall;
using ir::Node;
using torch::jit::Module;

class RecurrentLowering {
 public:
  RecurrentLowering(Model& gm, Report& report) : gm_(gm), decisions_(report) {}

  void run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (!ir::is_module_call(node) || ir::keeps_reference(gm_, node)) continue;
      if (torchscript::is_recurrent(ir::call_of(gm_, node).type)) lower(node);
    }
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  void lower(Node* op) {
    ModuleCall& call = ir::call_of(gm_, op);
    if (!is_dynamic(op)) return;
    // Packed sequences are no tensors and have no quantize node in front.
    const auto input = operators::dynamic_input(op->input(0));
    const std::string refusal = call.recurrent_qparams.empty() ? torchscript::recurrent_weights(call).refusal
                                                               : put_kernels_into(op, call);
    call.recurrent_qparams.clear();
    // A state that is the input itself was observed with it (D-20).
    if (input) ir::replace_operand(op, op->input(0), input->value);
    Decision* decision = decisions_.of(op);
    if (refusal.empty() || decision == nullptr) return;
    decision->quantized = false;
    decision->reason = fmt::format("the engine has no kernel for it: {}", refusal);
    decision->remedy = "quantize for another engine, or give it another qconfig or none";
  }

  bool is_dynamic(const Node* op) const {
    const QConfig* qconfig = ir::observed_qconfig(gm_, op);
    return qconfig != nullptr && resolve(qconfig->activation).is_dynamic;
  }

  /// Empty, or why the engine has none.
  std::string put_kernels_into(Node* op, ModuleCall& call) {
    if (call.recurrent_qparams.back().dtype == c10::ScalarType::Half) {
      const kernels::KernelUse use{
          .gm = gm_, .op = op, .kernel = "quantized::linear_prepack_fp16", .input = nullptr};
      if (const auto* fault = kernels::fault_of(use, kernels::Precaution::KeepReference))
        return std::string(fault->reason);
    }
    const auto key = std::make_pair(static_cast<const void*>(call.module->_ivalue().get()), call.method);
    auto found = made_.find(key);
    if (found == made_.end()) {
      try {
        found =
            made_
                .emplace(key, torchscript::dynamic_recurrent(call, call.recurrent_qparams, reduces_range(op)))
                .first;
      } catch (const Error& error) {
        return error.problem();
      }
    }
    if (Decision* decision = decisions_.of(op)) decision->kernel = torchscript::recurrent_kernel_of(call);
    call.module = found->second;
    call.method = "forward";
    return "";
  }

  /// PyTorch's dynamic layers always ask for it.
  bool reduces_range(const Node* op) const {
    const kernels::KernelUse use{
        .gm = gm_, .op = op, .kernel = "quantized::make_quantized_cell_params_dynamic", .input = nullptr};
    return kernels::fault_of(use, kernels::Precaution::FullRange) == nullptr;
  }

  Model& gm_;
  DecisionIndex decisions_;
  std::map<std::pair<const void*, std::string>, Module> made_;
};

}  // namespace

void lower_recurrent(Model& gm, Report& report) { RecurrentLowering(gm, report).run(); }

}  // namespace tsq::passes
