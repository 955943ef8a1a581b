// Linear layers with quantized weights and float input → kernels that read the small weights.
//   y = Linear(x)   →   y = _weight_int8pack_mm(bfloat16(x), weight, scales) + bias

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "passes/decision_index.h"
#include "passes/lower/passes.h"
#include "torchscript/weight_only_linear.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::ModuleCall;
using ir::Node;

/// Whether the QConfig leaves activations in float.
bool is_weight_only(const Model& gm, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(gm, node);
  return qconfig != nullptr && match::is_weight_only(*qconfig);
}

bool is_linear(const ModuleCall& call) { return call.type.name == "torch.nn.Linear"; }

/// The linear layer of a call: its own, or the one that a fused module begins with.
ModuleCall& layer_of(ModuleCall& call) { return call.members.empty() ? call : call.members.front(); }

/// What tells packed weights apart: tensors by their place in memory, and what they are quantized to.
using Key = std::tuple<const void*, const void*, int64_t, c10::ScalarType>;

Key key_of(const ir::Weighted& weighted) {
  return {weighted.weight.const_data_ptr(),
          weighted.bias.defined() ? weighted.bias.const_data_ptr() : nullptr, weighted.group_size,
          weighted.weight_qparams->dtype};
}

void keep_rounded(const ir::Weighted& weighted, Decision* decision) {
  if (decision == nullptr) return;
  decision->quantized = false;
  decision->reason = fmt::format("no kernel takes its weight ({}), which is rounded and stays float",
                                 dtype_name(weighted.weight_qparams->dtype));
  decision->remedy =
      "give it a weight observer of symmetric qint8 for each row, or of quint4x2 with a group_size, or none";
}

}  // namespace

void lower_weight_only_linear(Model& gm, Report& report) {
  const DecisionIndex decisions(report);
  std::map<Key, torch::jit::Module> packed;  ///< calls of one module share it
  for (const Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!ir::is_module_call(node) || ir::keeps_reference(gm, node) || !is_weight_only(gm, node)) continue;
    ModuleCall& layer = layer_of(ir::call_of(gm, node));
    if (!is_linear(layer) || !layer.weighted || !layer.weighted->weight_qparams) continue;
    const Key key = key_of(*layer.weighted);
    if (!packed.contains(key)) {
      const auto made = torchscript::weight_only_linear(*layer.weighted);
      if (!made) {
        keep_rounded(*layer.weighted, decisions.of(node));
        continue;
      }
      packed.emplace(key, *made);
    }
    if (Decision* decision = decisions.of(node); decision != nullptr)
      decision->kernel = torchscript::weight_only_kernel(*layer.weighted);
    layer.module = packed.at(key);
    layer.method = "forward";
    layer.weighted.reset();
  }
}

}  // namespace tsq::passes
