// Modules of classes that the custom config maps → their observed modules
// (torch/ao/quantization/fx/prepare.py, _swap_custom_module_to_observed).
//   y = observer(Custom(x))   →   y = observer(ObservedCustom(x))

#include <map>
#include <string>

#include "ir/analysis.h"
#include "passes/context/custom_lstm.h"
#include "passes/context/nodes.h"
#include "passes/observe/passes.h"
#include "passes/observe/target_infos.h"
#include "torchscript/modules/custom_module.h"

namespace tsq::passes {
namespace {

/// E-08: FX makes the observed module where it has put an observer after the float one.
bool has_observed_output(const Model& model, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  const bool gives_tensors =
      node->output()->type()->kind() == TypeKind::TensorType || is_custom_lstm(model, node);
  if (qconfig == nullptr || !gives_tensors) return false;
  const WantedObserver activation = wanted_observer(qconfig->activation);
  return !activation.is_dynamic && is_quantized_dtype(activation.dtype);
}

Module observed(const Model& model, const PassContext& context, const Node* node) {
  const ir::ModuleCall& call = ir::call_of(model, node);
  const QConfig& qconfig = *ir::observed_qconfig(model, node);
  (void)get_quant_type(qconfig);  // refuses dtypes that are of no type
  return torchscript::observed_module(*context.custom.observed_module(call.type), *call.module, qconfig,
                                      node->inputs().size(),
                                      {.layer = call.path, .op = std::string(call.type.name)});
}

}  // namespace

bool observe_custom_modules(Model& model, const PassContext& context) {
  std::map<std::string, Module> made;  // a module is the same wherever it is called
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_module_call(node) || ir::call_of(model, node).custom != ir::CustomState::Float) continue;
    const std::string& path = ir::call_of(model, node).path;
    if (!made.contains(path) && has_observed_output(model, node))
      made.emplace(path, observed(model, context, node));
  }
  return change_each(model.calls, [&](ir::ModuleCall& call) {
    const auto found = made.find(call.path);
    if (call.custom != ir::CustomState::Float || found == made.end()) return false;
    call.type = context.custom.observed_module(call.type)->name;
    call.module = found->second;
    call.method = "forward";
    call.custom = ir::CustomState::Observed;
    return true;
  });
}

}  // namespace tsq::passes
