// Observers → quantize / dequantize pairs; weighted modules → reference modules
// (torch/ao/quantization/fx/convert.py).
//   y = observer(x)   →   y = dequantize(quantize_per_tensor(x, scale, zero_point, dtype))

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <utility>

#include "config/observer_classes.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "match/dtype_check.h"
#include "match/root_modules.h"
#include "observers/observer_module.h"
#include "operators/weighted.h"
#include "passes/convert/passes.h"
#include "torchscript/embedding.h"
#include "torchscript/float_module.h"
#include "torchscript/recurrent.h"
#include "torchscript/reference_module.h"
#include "torchscript/weight_only_linear.h"

namespace tsq::passes {
namespace {

using c10::ScalarType;
using ir::kDequantize;
using ir::Model;
using ir::Node;
using ir::Value;

/// Indices, offsets, weights of samples. Traced calls leave out what was not given.
constexpr std::size_t kBagArguments = 3;

bool is_per_channel(c10::QScheme scheme) {
  return scheme == c10::QScheme::PER_CHANNEL_AFFINE || scheme == c10::QScheme::PER_CHANNEL_SYMMETRIC ||
         scheme == c10::QScheme::PER_CHANNEL_AFFINE_FLOAT_QPARAMS;
}

bool has_qconfig(const Model& gm, const Node* node) {
  const ir::NodeState* state = ir::state_of(gm, node);
  return state != nullptr && state->qconfig.has_value();
}

/// The nodes that read a value, also after the branches that return it.
std::vector<Node*> readers_of(const Value* value) {
  std::vector<Node*> readers;
  for (Node* user : ir::users(value)) {
    Node* owner = user->owningBlock()->owningNode();
    if (user->kind() != c10::prim::Return || owner == nullptr || owner->kind() != c10::prim::If) {
      readers.push_back(user);
      continue;
    }
    for (std::size_t i = 0; i < user->inputs().size(); ++i) {
      if (user->input(i) != value) continue;
      for (Node* reader : readers_of(owner->output(i))) readers.push_back(reader);
    }
  }
  return readers;
}

/// K-03: an observer between operators that are all configured not to be quantized is removed.
bool is_between_float_operators(const Model& gm, const Node* observer) {
  const Node* producer = observer->input(0)->node();
  if (has_qconfig(gm, producer)) return false;
  const auto readers = readers_of(observer->output());
  return std::none_of(readers.begin(), readers.end(),
                      [&](const Node* reader) { return has_qconfig(gm, reader); });
}

/// B-19: FX refuses a model that has per-channel weights of a transposed convolution. Along axis 1, of the
/// output channels, they are kept; along another axis, the default 0 among them, kernels would read them as
/// scales of other channels: the observer's counterpart for whole tensors takes their place.
ObserverSpec of_transposed(ObserverSpec spec) {
  constexpr int64_t kOutputChannels = 1;
  const ResolvedObserver resolved = resolve(spec);
  if (!is_per_channel(resolved.qscheme) || resolved.ch_axis == kOutputChannels) return spec;
  const bool is_symmetric = resolve(spec).qscheme == c10::QScheme::PER_CHANNEL_SYMMETRIC;
  spec.observer = spec.observer == observer_classes::kPerChannelMinMax
                      ? observer_classes::kMinMax
                      : observer_classes::kMovingAverageMinMax;
  spec.qscheme = is_symmetric ? c10::QScheme::PER_TENSOR_SYMMETRIC : c10::QScheme::PER_TENSOR_AFFINE;
  spec.ch_axis.reset();
  return spec;
}

class Converter {
 public:
  Converter(Model& gm, std::span<const ObserverResult> observers, const BackendConfig& backend)
      : gm_(gm), observers_(observers), backend_(backend) {}

  void run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (ir::is_observer(node)) {
        replace_observer(node);
      } else if (ir::is_standalone(gm_, node)) {
        convert_standalone_boundary(node);
      } else if (ir::is_module_call(node)) {
        make_reference(node);
        make_reference_embedding(node);
      }
    }
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  Value* constant(const c10::IValue& value) { return gm_.graph->insertConstant(value); }

  Value* insert(const char* kind, std::vector<Value*> inputs, const Node* scope_source) {
    Node* node = gm_.graph->create(c10::Symbol::fromQualString(kind), inputs, 1);
    ir::take_scope(node, scope_source);
    gm_.graph->insertNode(node);
    return node->output();
  }

  void replace_observer(Node* node) {
    Value* input = node->input(0);
    const torch::jit::WithInsertPoint guard(node);
    Value* result = input;
    if (!is_between_float_operators(gm_, node) && !observers_[ir::observer_index(node)].saw_other_dtype) {
      if (Value* quantized = quantize(node, input)) result = insert("aten::dequantize", {quantized}, node);
    }
    node->output()->replaceAllUsesWith(result);
    node->destroy();
  }

  /// The quantized value; null when the observer's dtype has no quantize operator (placeholders for float32).
  Value* quantize(const Node* node, Value* input) {
    const std::size_t index = ir::observer_index(node);
    const ResolvedObserver resolved = resolve(gm_.observers[index].spec);
    if (resolved.is_dynamic) {
      // K-05: the engine of this moment decides, not the observer.
      const auto engine = at::globalContext().qEngine();
      const bool reduce_range = engine == at::QEngine::FBGEMM || engine == at::QEngine::X86;
      return insert("aten::quantize_per_tensor_dynamic",
                    {input, constant(static_cast<int64_t>(resolved.dtype)), constant(reduce_range)}, node);
    }
    if (resolved.dtype == ScalarType::Half) {
      return insert("aten::to",
                    {input, constant(static_cast<int64_t>(ScalarType::Half)), constant(false),
                     constant(false), constant(c10::IValue())},
                    node);
    }
    const bool quantized_dtype = resolved.dtype == ScalarType::QUInt8 ||
                                 resolved.dtype == ScalarType::QInt8 || resolved.dtype == ScalarType::QInt32;
    const ObserverResult& found = observers_[index];
    if (!quantized_dtype || !found.qparams) return nullptr;
    return quantize_static(node, input, qparams_for(node, input, found));
  }

  /// The weight of a functional is there without calibration: its observer is run now when it has seen
  /// nothing (K-01).
  QParams qparams_for(const Node* node, const Value* input, const ObserverResult& found) const {
    if (!found.saw_data && input->node()->kind() == c10::prim::GetAttr) {
      const c10::IValue value = gm_.attributes.attr(input->node()->s(c10::attr::name));
      if (value.isTensor())
        return observe_once(gm_.observers[ir::observer_index(node)].spec, value.toTensor());
    }
    return *found.qparams;
  }

  Value* quantize_static(const Node* node, Value* input, const QParams& qparams) {
    Value* dtype = constant(static_cast<int64_t>(qparams.dtype));
    if (is_per_channel(qparams.qscheme)) {
      const std::string& name = gm_.observers[ir::observer_index(node)].layer;
      Value* scale = ir::insert_attribute(gm_, name + "_scale", qparams.scale, c10::TensorType::get());
      Value* zero_point =
          ir::insert_attribute(gm_, name + "_zero_point", qparams.zero_point, c10::TensorType::get());
      return insert("aten::quantize_per_channel", {input, scale, zero_point, constant(qparams.axis), dtype},
                    node);
    }
    const std::string& layer = gm_.observers[ir::observer_index(node)].layer;
    Value* scale = ir::insert_double(gm_, layer + "_scale", qparams.scale.item<float>());
    return insert("aten::quantize_per_tensor",
                  {input, scale, constant(qparams.zero_point.item<int64_t>()), dtype}, node);
  }

  /// Whether an observed call's row takes the dtypes of its QConfig, the weight's among them, and the table
  /// has a reference module for its root, where that is a module.
  bool takes_quantized_weight(const ir::ModuleCall& call, const ir::NodeState& state) const {
    const bool is_swapped =
        call.type.kind != SymbolKind::Module || match::reference_module_of(backend_, call).has_value();
    if (!state.observed || !state.qconfig || !is_swapped) return false;
    const auto row =
        std::find_if(backend_.configs().begin(), backend_.configs().end(),
                     [&](const BackendPatternConfig& each) { return each.key() == Pattern(call.type); });
    return row != backend_.configs().end() && match::dtypes_supported(*state.qconfig, row->dtype_configs) &&
           match::weight_is_quantized(*state.qconfig);
  }

  /// K-08, K-09: the same for embeddings, whose table alone is quantized.
  void make_reference_embedding(Node* node) {
    ir::ModuleCall& call = ir::call_of(gm_, node);
    const ir::NodeState* state = ir::state_of(gm_, node);
    if (!call.embedding) return;
    const std::optional<QParams> trained = std::exchange(call.embedding->weight_qparams, std::nullopt);
    if (state == nullptr || !takes_quantized_weight(call, *state)) return;
    const QParams qparams =
        trained ? *trained : observe_once(state->qconfig->weight, call.embedding->weight.detach());
    if (!torchscript::unquantizable(*call.embedding, qparams).empty()) return;
    const std::vector<int64_t> traced_order = torchscript::traced_bag_arguments(call);
    call.embedding->weight_qparams = qparams;
    call.module = torchscript::reference_embedding(*call.embedding);
    call.method = "forward";
    if (!call.embedding->is_bag) return;
    const torch::jit::WithInsertPoint guard(node);
    const std::vector<Value*> given(node->inputs().begin(), node->inputs().end());
    if (!traced_order.empty()) node->removeAllInputs();
    for (const int64_t argument : traced_order)
      node->addInput(argument == 0 ? constant(c10::IValue())
                                   : given.at(static_cast<std::size_t>(argument) - 1));
    while (node->inputs().size() < kBagArguments) node->addInput(constant(c10::IValue()));
  }

  /// K-08, K-09, K-12: a weighted module of an observed pattern gets the qparams of its weight, if the
  /// backend takes the dtypes.
  void make_reference(const Node* node) {
    ir::ModuleCall& call = ir::call_of(gm_, node);
    ir::Weighted* weighted = ir::weighted_of(call);
    const bool is_recurrent = call.module && torchscript::is_recurrent(call.type);
    const ir::NodeState* state = ir::state_of(gm_, node);
    const bool is_known = weighted != nullptr && weighted->weight_qparams.has_value();
    if (state == nullptr || !takes_quantized_weight(call, *state)) {
      if (is_known) weighted->weight_qparams.reset();
      return;
    }
    const std::optional<Symbol> reference = match::reference_module_of(backend_, call);
    if (reference && torchscript::is_registered_reference(*reference))
      return take_registered_reference(call.members.empty() ? call : call.members.front(), *reference,
                                       state->qconfig->weight);
    if (weighted == nullptr && !is_recurrent) return;
    if (is_known) return;  // by training
    if (weighted == nullptr) {
      // K-10: an observer for each weight.
      for (const at::Tensor& each : torchscript::recurrent_weights(call).weights)
        call.recurrent_qparams.push_back(weight_qparams(state->qconfig->weight, each));
      return;
    }
    const Symbol root = call.members.empty() ? call.type : call.members.front().type;
    const ObserverSpec& weight = state->qconfig->weight;
    if (resolve(weight).group_size > 0) return quantize_in_groups(*weighted, weight);
    weighted->weight_qparams =
        weight_qparams(operators::is_transposed(root) ? of_transposed(weight) : weight, weighted->weight);
  }

  /// The module that the user registered takes the float one's place.
  void take_registered_reference(ir::ModuleCall& root, Symbol reference, const ObserverSpec& spec) const {
    const torch::jit::Module float_module = torchscript::float_module(root);
    const c10::IValue weight = float_module.hasattr("weight") ? float_module.attr("weight") : c10::IValue();
    if (!weight.isTensor()) {
      throw Error(
          ErrorCode::BadModel,
          fmt::format("'{}' stands for it, and it has no tensor 'weight' to quantize", reference.name),
          "give the class an attribute 'weight', or take its row out of the table",
          Where{.layer = root.path, .op = std::string(root.type.name)});
    }
    root.module = torchscript::registered_reference(reference, float_module,
                                                    weight_qparams(spec, weight.toTensor().detach()));
    root.method = "forward";
    root.weighted.reset();
  }

  /// A scale and zero point for each group of columns; the last group is filled up with zeros.
  static void quantize_in_groups(ir::Weighted& weighted, const ObserverSpec& spec) {
    if (weighted.weight.dim() != 2) return;
    weighted.group_size = resolve(spec).group_size;
    QParams qparams =
        observe_once(spec, torchscript::weight_in_groups(weighted.weight.detach(), weighted.group_size));
    for (at::Tensor* each : {&qparams.scale, &qparams.zero_point})
      *each = each->reshape({weighted.weight.size(0), -1});
    weighted.weight_qparams = qparams;
  }

  /// E-02: a standalone module reads its quantized inputs as they are, and its quantized output is
  /// dequantized.
  void convert_standalone_boundary(Node* node) {
    const ir::StandaloneBoundary& boundary = *ir::call_of(gm_, node).standalone;
    for (const int index : boundary.input_quantized_indexes) {
      const auto position = static_cast<std::size_t>(index);
      if (position >= node->inputs().size()) continue;
      Node* producer = node->input(position)->node();
      if (producer->kind() == kDequantize) node->replaceInput(position, producer->input(0));
    }
    if (!boundary.output_is_quantized) return;
    const torch::jit::WithInsertPoint guard(node->next());
    Value* dequantized = insert("aten::dequantize", {node->output()}, node);
    node->output()->replaceAllUsesAfterNodeWith(dequantized->node(), dequantized);
  }

  QParams weight_qparams(const ObserverSpec& spec, const at::Tensor& weight) const {
    if (resolve(spec).dtype == ScalarType::Half) return {.dtype = ScalarType::Half};
    return observe_once(spec, weight);
  }

  Model& gm_;
  std::span<const ObserverResult> observers_;
  const BackendConfig& backend_;
};

bool is_container(const Node* node) {
  return node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::TupleConstruct ||
         node->kind() == c10::prim::DictConstruct;
}

/// The dequantize nodes that produce `value`, looked for in lists, tuples and dicts too.
void collect_dequantized(Value* value, std::vector<Value*>& found) {
  Node* node = value->node();
  if (node->kind() == kDequantize) found.push_back(value);
  if (!is_container(node)) return;
  for (Value* element : node->inputs()) collect_dequantized(element, found);
}

void replace_in_output(Node* user, Value* from, Value* to) {
  user->replaceInputWith(from, to);
  for (Value* input : user->inputs()) {
    if (is_container(input->node())) replace_in_output(input->node(), from, to);
  }
}

/// E-11, E-12: inputs that arrive quantized are dequantized; outputs that leave quantized lose their
/// dequantize. A list or tuple has an index an element, anything else is output 0 as a whole.
void convert_graph_boundary(Model& gm, const PrepareCustomConfig& custom) {
  for (const int index : custom.input_quantized_indexes()) {
    Value* input = gm.graph->inputs().at(static_cast<std::size_t>(index) + 1);
    Node* dequantize = gm.graph->create(kDequantize, {input}, 1);
    gm.graph->prependNode(dequantize);
    input->replaceAllUsesAfterNodeWith(dequantize, dequantize->output());
  }
  Node* returned = gm.graph->return_node();
  Node* made_by = returned->input(0)->node();
  const bool has_elements =
      made_by->kind() == c10::prim::ListConstruct || made_by->kind() == c10::prim::TupleConstruct;
  std::vector<Value*> dequantized;
  for (const int index : custom.output_quantized_indexes()) {
    const auto position = static_cast<std::size_t>(index);
    if (has_elements && position < made_by->inputs().size()) {
      collect_dequantized(made_by->input(position), dequantized);
    } else if (!has_elements && position == 0) {
      collect_dequantized(returned->input(0), dequantized);
    }
  }
  for (Value* value : dequantized) replace_in_output(returned, value, value->node()->input(0));
}

}  // namespace

void convert(Model& gm, std::span<const ObserverResult> observers, const BackendConfig& backend,
             const PrepareCustomConfig& custom) {
  Converter(gm, observers, backend).run();
  convert_graph_boundary(gm, custom);
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
