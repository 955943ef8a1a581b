// Linear layers with quantized weights and float input → kernels that read the small weights.
//   y = Linear(x)   →   y = _weight_int8pack_mm(bfloat16(x), weight, scales) + bias

#include <ATen/ATen.h>

#include <map>
#include <tuple>

#include "ir/analysis.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"
#include "torchscript/modules/weight_only_linear.h"

namespace tsq::passes {
namespace {

using ir::ModuleCall;

/// What tells packed weights apart: tensors by their place in memory, and what they are quantized to.
using Key = std::tuple<const void*, const void*, int64_t, c10::ScalarType>;

Key key_of(const ir::Weighted& weighted) {
  return {weighted.weight.const_data_ptr(),
          weighted.bias.defined() ? weighted.bias.const_data_ptr() : nullptr, weighted.group_size,
          weighted.weight_qparams->dtype};
}

}  // namespace

bool lower_weight_only_linear(Model& model, const PassContext& /*context*/) {
  std::map<Key, torch::jit::Module> packed;  ///< calls of one module share it
  bool has_changed = false;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    const auto planned = refusal_in_plan(model, node);
    if (!ir::is_module_call(node) || (ir::stays_float(model, node) && !planned)) continue;
    ModuleCall& layer = ir::root_of(ir::call_of(model, node));
    if (!layer.weighted || !layer.weighted->weight_qparams) continue;
    const kernels::NamedOffer offer = kernels::weight_only_offer(model, node);
    if (offer.kernel.empty()) continue;
    has_changed = true;
    if (const auto& refusal = planned ? planned : offer.refusal) {
      set_no_kernel(model, node, ir::Placement::Reference, refusal->reason, refusal->why, refusal->remedy);
      continue;
    }
    const Key key = key_of(*layer.weighted);
    if (!packed.contains(key)) packed.emplace(key, torchscript::weight_only_linear(*layer.weighted));
    set_kernel(model, node, offer.kernel, ir::Placement::Int8,
               layer.weighted->group_size > 0 ? "4-bit" : "8-bit");
    layer.module = packed.at(key);
    layer.method = "forward";
    layer.weighted.reset();
  }
  return has_changed;
}

}  // namespace tsq::passes
