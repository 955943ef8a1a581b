// Weighted modules → reference modules, whose weights are rounded (torch/ao/quantization/fx/convert.py,
// convert_weighted_module). The weights of functions have observers in the graph, which convert replaces.

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>

#include "ir/analysis.h"
#include "match/root_modules.h"
#include "passes/convert/passes.h"
#include "passes/place/rounding.h"
#include "torchscript/modules/float_module.h"
#include "torchscript/modules/reference/reference_module.h"

namespace tsq::passes {
namespace {

using ir::ModuleCall;

/// The observer of the weight of a call whose weight is rounded; null for others.
const ObserverSpec* weight_observer(const Model& model, const Node* node) {
  const ir::NodeRecord* record = ir::record_of(model, node);
  constexpr std::array kRounded{ir::Placement::Int8, ir::Placement::Int8FloatOut, ir::Placement::Reference};
  const bool is_rounded = record != nullptr && record->lookup.qconfig &&
                          std::ranges::find(kRounded, record->placement) != kRounded.end();
  return is_rounded ? &record->lookup.qconfig->weight : nullptr;
}

/// The module that the user registered takes the float one's place.
void take_registered_reference(ModuleCall& root, Symbol reference, const ObserverSpec& spec,
                               std::size_t inputs) {
  const Where where{.layer = root.path, .op = std::string(root.type.name)};
  const torch::jit::Module float_module = torchscript::float_module(root);
  const c10::IValue weight = float_module.hasattr("weight") ? float_module.attr("weight") : c10::IValue();
  if (!weight.isTensor()) {
    throw Error(ErrorCode::BadModel,
                fmt::format("'{}' stands for it, and it has no tensor 'weight' to quantize", reference.name),
                "give the class an attribute 'weight', or take its row out of the table", where);
  }
  root.module = torchscript::registered_reference(
      reference, float_module, torchscript::weight_qparams(spec, weight.toTensor().detach()), inputs, where);
  root.method = "forward";
  root.weighted.reset();
  root.embedding.reset();
}

/// One of PyTorch's reference modules reads a float module by its attributes, whatever its class is
/// (nnqr.Linear.from_float).
void take_class_of(Symbol reference, ModuleCall& root) {
  if (torchscript::read_as(reference, root)) return;
  throw Error(ErrorCode::BadConfig,
              fmt::format("'{}' cannot stand for it: it lacks attributes of a {}", reference.name,
                          torchscript::pytorch_class_of(reference)->name),
              "give the class those attributes, or register a reference module of your own",
              Where{.layer = root.path, .op = std::string(root.type.name)});
}

bool quantize_module(const PassContext& context, Node* node, ModuleCall& call, const ObserverSpec& spec) {
  const std::optional<Symbol> reference = match::reference_module_of(context.table, call);
  ModuleCall& root = ir::root_of(call);
  if (reference && torchscript::is_registered_reference(*reference)) {
    // The root of a fused module reads the first input, the addend of an addition is not its own.
    take_registered_reference(root, *reference, spec, call.members.empty() ? node->inputs().size() : 1);
    return true;
  }
  if (reference && is_of_another_class(*reference, call)) take_class_of(*reference, root);
  const torchscript::ReferenceKind* kind = torchscript::reference_kind_of(root);
  return kind != nullptr && kind->build(node, root, spec);
}

/// What training found for a weight that stays float.
bool forget_qparams(ModuleCall& call) {
  bool has_forgotten = false;
  const auto forget = [&](std::optional<QParams>& qparams) {
    has_forgotten |= qparams.has_value();
    qparams.reset();
  };
  if (ir::Weighted* weighted = ir::weighted_of(call)) forget(weighted->weight_qparams);
  if (call.embedding) forget(call.embedding->weight_qparams);
  return has_forgotten;
}

}  // namespace

bool quantize_weights(Model& model, const PassContext& context) {
  bool has_changed = false;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_module_call(node) || ir::is_opaque(model, node)) continue;
    ModuleCall& call = ir::call_of(model, node);
    const ObserverSpec* spec = weight_observer(model, node);
    if (spec == nullptr) {
      has_changed |= forget_qparams(call);
      continue;
    }
    has_changed |= quantize_module(context, node, call, *spec);
  }
  return has_changed;
}

}  // namespace tsq::passes
