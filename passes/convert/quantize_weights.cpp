// Weighted modules → reference modules, whose weights are rounded (torch/ao/quantization/fx/convert.py,
// convert_weighted_module). The weights of functions have observers in the graph, which convert replaces.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "match/root_modules.h"
#include "observers/observer_module.h"
#include "operators/weighted.h"
#include "passes/convert/passes.h"
#include "passes/place/rounding.h"
#include "torchscript/modules/embedding.h"
#include "torchscript/modules/float_module.h"
#include "torchscript/modules/recurrent.h"
#include "torchscript/modules/reference_module.h"
#include "torchscript/modules/weight_only_linear.h"

namespace tsq::passes {
namespace {

using ir::ModuleCall;

/// Indices, offsets, weights of samples. Traced calls leave out what was not given.
constexpr std::size_t kBagArguments = 3;

/// The observer of the weight of a call whose weight is rounded; null for others.
const ObserverSpec* weight_observer(const Model& model, const Node* node) {
  const ir::NodeRecord* record = ir::record_of(model, node);
  constexpr std::array kRounded{ir::Placement::Int8, ir::Placement::Int8FloatOut, ir::Placement::Reference};
  const bool is_rounded = record != nullptr && record->lookup.qconfig &&
                          std::ranges::find(kRounded, record->placement) != kRounded.end();
  return is_rounded ? &record->lookup.qconfig->weight : nullptr;
}

QParams weight_qparams(const ObserverSpec& spec, const at::Tensor& weight) {
  if (resolve(spec).dtype == c10::ScalarType::Half) return {.dtype = c10::ScalarType::Half};
  return observe_once(spec, weight);
}

/// A scale and zero point for each group of columns; the last group is filled up with zeros.
bool quantize_in_groups(ir::Weighted& weighted, const ObserverSpec& spec) {
  if (weighted.weight.dim() != 2) return false;
  weighted.group_size = resolve(spec).group_size;
  QParams qparams =
      observe_once(spec, torchscript::weight_in_groups(weighted.weight.detach(), weighted.group_size));
  for (at::Tensor* each : {&qparams.scale, &qparams.zero_point})
    *each = each->reshape({weighted.weight.size(0), -1});
  weighted.weight_qparams = qparams;
  return true;
}

/// K-08, K-09, K-12.
bool quantize_layer(ModuleCall& call, const ObserverSpec& spec) {
  ir::Weighted& weighted = *ir::weighted_of(call);
  if (weighted.weight_qparams) return false;  // by training
  if (resolve(spec).group_size > 0) return quantize_in_groups(weighted, spec);
  const Symbol root = call.members.empty() ? call.type : call.members.front().type;
  weighted.weight_qparams = weight_qparams(operators::weight_observer(root, spec), weighted.weight);
  return true;
}

/// K-10: an observer for each weight.
bool quantize_recurrent(ModuleCall& call, const ObserverSpec& spec) {
  for (const at::Tensor& each : torchscript::recurrent_weights(call).weights) {
    const bool stays_float = call.recurrent_qparams.size() < call.float_recurrent_weights;
    call.recurrent_qparams.push_back(stays_float ? QParams{.dtype = c10::ScalarType::Float}
                                                 : weight_qparams(spec, each));
  }
  return !call.recurrent_qparams.empty();
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
      reference, float_module, weight_qparams(spec, weight.toTensor().detach()), inputs, where);
  root.method = "forward";
  root.weighted.reset();
}

/// One of PyTorch's reference modules reads a float module by its attributes, whatever its class is
/// (nnqr.Linear.from_float).
void take_class_of(Symbol reference, ModuleCall& root) {
  const Symbol type = *torchscript::pytorch_class_of(reference);
  const std::optional<ir::Weighted> read = root.module && operators::is_weighted(type)
                                               ? operators::weighted_parameters(type, *root.module)
                                               : std::nullopt;
  if (!read) {
    throw Error(
        ErrorCode::BadConfig,
        fmt::format("'{}' cannot stand for it: it lacks attributes of a {}", reference.name, type.name),
        "give the class those attributes, or register a reference module of your own",
        Where{.layer = root.path, .op = std::string(root.type.name)});
  }
  root.weighted = *read;
  root.type = type;
  root.module.reset();
}

bool quantize_module(const PassContext& context, ModuleCall& call, const ObserverSpec& spec,
                     std::size_t inputs) {
  const std::optional<Symbol> reference = match::reference_module_of(context.table, call);
  ModuleCall& root = call.members.empty() ? call : call.members.front();
  if (reference && torchscript::is_registered_reference(*reference)) {
    // The root of a fused module reads the first input, the addend of an addition is not its own.
    take_registered_reference(root, *reference, spec, call.members.empty() ? inputs : 1);
    return true;
  }
  if (reference && is_of_another_class(*reference, call)) take_class_of(*reference, root);
  if (ir::weighted_of(call) != nullptr) return quantize_layer(call, spec);
  return call.module && torchscript::is_recurrent(call.type) && quantize_recurrent(call, spec);
}

/// The inputs of a bag in the order of PyTorch's arguments.
void order_bag_inputs(Node* node, const std::vector<int64_t>& traced_order) {
  const std::vector<Value*> given(node->inputs().begin(), node->inputs().end());
  const auto none = [&] { return ir::constant_before(node, c10::IValue()); };
  if (!traced_order.empty()) node->removeAllInputs();
  for (const int64_t argument : traced_order)
    node->addInput(argument == 0 ? none() : given.at(static_cast<std::size_t>(argument) - 1));
  while (node->inputs().size() < kBagArguments) node->addInput(none());
}

/// K-08, K-09: of embeddings the table alone is quantized.
bool quantize_table(Model& model, Node* node, const ObserverSpec& spec) {
  ModuleCall& call = ir::call_of(model, node);
  ir::EmbeddingTable& table = *call.embedding;
  const std::optional<QParams> trained = std::exchange(table.weight_qparams, std::nullopt);
  const QParams qparams = trained ? *trained : observe_once(spec, table.weight.detach());
  if (!torchscript::unquantizable(table, qparams).empty()) return false;
  const std::vector<int64_t> traced_order = torchscript::traced_bag_arguments(call);
  table.weight_qparams = qparams;
  call.module = torchscript::reference_embedding(table);
  call.method = "forward";
  if (table.is_bag) order_bag_inputs(node, traced_order);
  return true;
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
    if (!ir::is_module_call(node) || ir::is_standalone(model, node)) continue;
    ModuleCall& call = ir::call_of(model, node);
    const ObserverSpec* spec = weight_observer(model, node);
    if (spec == nullptr) {
      has_changed |= forget_qparams(call);
      continue;
    }
    has_changed |= quantize_module(context, call, *spec, node->inputs().size());
    if (call.embedding) has_changed |= quantize_table(model, node, *spec);
  }
  return has_changed;
}

}  // namespace tsq::passes
