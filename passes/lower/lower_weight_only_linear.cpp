// Linear layers with quantized weights and float input → kernels that read the small weights.
//   y = Linear(x)   →   y = _weight_int8pack_mm(bfloat16(x), weight, scales) + bias

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"
#include "torchscript/modules/weight_only_linear.h"

namespace tsq::passes {
namespace {

using ir::ModuleCall;

/// Whether the QConfig leaves activations in float.
bool is_weight_only(const Model& model, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  return qconfig != nullptr && match::is_weight_only(*qconfig);
}

bool is_linear(const ModuleCall& call) { return call.type.name == "torch.nn.Linear"; }

/// What tells packed weights apart: tensors by their place in memory, and what they are quantized to.
using Key = std::tuple<const void*, const void*, int64_t, c10::ScalarType>;

Key key_of(const ir::Weighted& weighted) {
  return {weighted.weight.const_data_ptr(),
          weighted.bias.defined() ? weighted.bias.const_data_ptr() : nullptr, weighted.group_size,
          weighted.weight_qparams->dtype};
}

void keep_rounded(Model& model, const Node* node, const ir::Weighted& weighted) {
  set_no_kernel(
      model, node, ir::Placement::Reference, ir::Reason::NoKernel,
      fmt::format("no kernel takes its weight ({}), which is rounded and stays float",
                  dtype_name(weighted.weight_qparams->dtype)),
      "give it a weight observer of symmetric qint8 for each row, or of quint4x2 with a group_size, or none");
}

}  // namespace

bool lower_weight_only_linear(Model& model, const PassContext& /*context*/) {
  std::map<Key, torch::jit::Module> packed;  ///< calls of one module share it
  bool has_changed = false;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_module_call(node) || ir::stays_float(model, node) || !is_weight_only(model, node)) continue;
    ModuleCall& layer = ir::root_of(ir::call_of(model, node));
    if (!is_linear(layer) || !layer.weighted || !layer.weighted->weight_qparams) continue;
    has_changed = true;
    const Key key = key_of(*layer.weighted);
    if (!packed.contains(key)) {
      const auto made = torchscript::weight_only_linear(*layer.weighted);
      if (!made) {
        keep_rounded(model, node, *layer.weighted);
        continue;
      }
      packed.emplace(key, *made);
    }
    set_kernel(model, node, torchscript::weight_only_kernel(*layer.weighted), ir::Placement::Int8,
               layer.weighted->group_size > 0 ? "4-bit" : "8-bit");
    layer.module = packed.at(key);
    layer.method = "forward";
    layer.weighted.reset();
  }
  return has_changed;
}

}  // namespace tsq::passes
