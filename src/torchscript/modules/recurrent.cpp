#include "torchscript/modules/recurrent.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "backends/kernels/dynamic_kernels.h"
#include "backends/kernels/packed.h"
#include "base/tensor_memory.h"
#include "ir/analysis.h"
#include "ir/define_method.h"
#include "ir/edit.h"
#include "operators/inlined_graph.h"
#include "torchscript/modules/written_module.h"

namespace tsq::torchscript {
namespace {

using ir::Graph;
using ir::ModuleCall;
using ir::Node;
using ir::Value;
using kernels::RecurrentKernel;
using torch::jit::Module;

using Operator = std::pair<Node*, const RecurrentKernel*>;

std::shared_ptr<Graph> inlined_graph(const ModuleCall& call) {
  auto graph = operators::inlined_graph(*call.module, call.method);
  // Of a cell's nonlinearities one remains.
  torch::jit::ConstantPropagationImmutableTypes(graph);
  return graph;
}

std::vector<Operator> recurrent_operators(Graph& graph) {
  std::vector<Operator> found;
  for (Node* node : ir::nodes_in_order(graph)) {
    if (const auto* row = kernels::recurrent_kernel(node->kind().toQualString()))
      found.emplace_back(node, row);
  }
  return found;
}

std::size_t index_of(const Node* node, const char* name) {
  return static_cast<std::size_t>(node->schema().argumentIndexWithName(name).value());
}

/// A constant, or the module's attribute.
std::optional<c10::IValue> known_value(const Module& module, const Graph& graph, const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::unchecked_cast) return known_value(module, graph, node->input(0));
  if (node->kind() == c10::prim::GetAttr && node->input(0) == graph.inputs().at(0))
    return module.attr(node->s(c10::attr::name));
  return torch::jit::toIValue(value);
}

/// A tensor, undefined for None; empty when it is not known now.
std::optional<at::Tensor> known_tensor(const Module& module, const Graph& graph, const Value* value) {
  const auto known = known_value(module, graph, value);
  if (!known) return std::nullopt;
  if (known->isNone()) return at::Tensor();
  return known->isTensor() ? std::optional(known->toTensor()) : std::nullopt;
}

/// All weights and biases of an operator, in the order in which it takes them; empty when some are not known.
std::vector<at::Tensor> parameters_of(const Module& module, const Graph& graph, const Operator& op) {
  const auto& [node, row] = op;
  std::vector<Value*> values;
  if (row->is_cell) {
    for (const char* name : {"w_ih", "w_hh", "b_ih", "b_hh"})
      values.push_back(node->input(index_of(node, name)));
  } else {
    Value* list = node->input(index_of(node, "params"));
    if (const auto known = known_value(module, graph, list); known && known->isTensorList())
      return known->toTensorVector();
    if (list->node()->kind() != c10::prim::ListConstruct) return {};
    values = list->node()->inputs().vec();
  }
  std::vector<at::Tensor> tensors;
  for (const Value* value : values) {
    const auto tensor = known_tensor(module, graph, value);
    if (!tensor) return {};
    tensors.push_back(*tensor);
  }
  return tensors;
}

/// The weights of the input and of the hidden state have one row for each gate's value.
bool are_pairs(const std::vector<at::Tensor>& weights) {
  for (std::size_t i = 0; i < weights.size(); i += 2) {
    if (i + 1 == weights.size() || weights[i].size(0) != weights[i + 1].size(0)) return false;
  }
  return true;
}

RecurrentWeights weights_of(const Module& module, const Graph& graph, const Operator& op) {
  RecurrentWeights result;
  std::vector<at::Tensor> vectors;
  for (const at::Tensor& tensor : parameters_of(module, graph, op)) {
    (tensor.defined() && tensor.dim() == 2 ? result.weights : vectors).push_back(tensor);
  }
  const auto is_odd = [](const at::Tensor& tensor) { return tensor.defined() && !holds_numbers(tensor); };
  if (std::ranges::any_of(result.weights, is_odd) || std::ranges::any_of(vectors, is_odd))
    return {.refusal = "its weights are sparse, or no real numbers, or there are none"};
  if (result.weights.empty()) return {.refusal = "its weights are computed when the model runs"};
  if (vectors.empty()) vectors.resize(result.weights.size());
  if (vectors.size() != result.weights.size() || !are_pairs(result.weights))
    return {.refusal = "LibTorch has no quantized kernel for an LSTM with projections (proj_size)"};
  const bool half_biased = std::ranges::any_of(
      vectors, [&](const at::Tensor& bias) { return bias.defined() != vectors.front().defined(); });
  if (half_biased) return {.refusal = "it has one bias where the kernel needs two"};
  result.biases = std::move(vectors);
  return result;
}

ir::Weighted weighted_at(const RecurrentWeights& all, std::span<const QParams> qparams, std::size_t i) {
  const at::Tensor& weight = all.weights[i];
  const at::Tensor bias =
      all.biases[i].defined() ? all.biases[i].detach() : at::zeros({weight.size(0)}, weight.options());
  return {.weight = weight.detach(), .bias = bias, .weight_qparams = qparams[i]};
}

/// Makes a module from a graph whose GetAttr nodes name attributes of `source` or of `made`.
class Rewriting {
 public:
  explicit Rewriting(const ModuleCall& call)
      : source_(*call.module),
        graph_(inlined_graph(call)),
        made_("__torch__.tsq.Dynamic" + class_name(call.type),
              std::make_shared<torch::jit::CompilationUnit>()) {}

  [[nodiscard]] Graph& graph() { return *graph_; }

  /// A new attribute, read in front of `before`.
  Value* attribute(const std::string& name, const c10::IValue& value, Node* before,
                   const c10::TypePtr& type = c10::TensorType::get()) {
    if (!made_.hasattr(name)) made_.register_attribute(name, type, value);
    return ir::read_attribute(before, graph_->inputs().at(0), name, type);
  }

  /// New attributes in the order in which an operator takes them: after two weights their biases.
  std::vector<Value*> parameters(std::span<const at::Tensor> weights, std::span<const at::Tensor> biases,
                                 Node* before) {
    std::vector<Value*> values;
    for (std::size_t i = 0; i < weights.size(); i += 2) {
      for (const std::size_t each : {i, i + 1})
        values.push_back(attribute(fmt::format("weight_{}", each), weights[each].detach(), before));
      for (const std::size_t each : {i, i + 1}) {
        if (biases[each].defined())
          values.push_back(attribute(fmt::format("bias_{}", each), biases[each].detach(), before));
      }
    }
    return values;
  }

  Module finish() {
    ir::eliminate_dead_code(*graph_);
    take_attributes();
    ir::add_method(made_, "forward", graph_);
    return made_;
  }

 private:
  /// What the graph still reads of the source.
  void take_attributes() {
    for (Node* node : ir::nodes_in_order(*graph_)) {
      if (node->kind() != c10::prim::GetAttr || node->input(0) != graph_->inputs().at(0)) continue;
      const std::string& name = node->s(c10::attr::name);
      if (made_.hasattr(name)) continue;
      made_.register_attribute(name, node->output()->type(),
                               name == "training" ? c10::IValue(false) : source_.attr(name));
    }
  }

  Module source_;
  std::shared_ptr<Graph> graph_;
  Module made_;
};

/// The weight as the engine's kernels compute with it.
at::Tensor rounded(const ir::Weighted& weighted) {
  const c10::ScalarType dtype = weighted.weight_qparams->dtype;
  if (dtype == c10::ScalarType::Half || dtype == c10::ScalarType::Float) return weighted.weight;
  return kernels::quantized_weight(weighted).dequantize();
}

}  // namespace

bool is_recurrent(Symbol type) {
  constexpr std::array<std::string_view, 5> kClasses{"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.LSTMCell",
                                                     "torch.nn.GRUCell", "torch.nn.RNNCell"};
  return std::ranges::find(kClasses, type.name) != kClasses.end();
}

RecurrentWeights recurrent_weights(const ModuleCall& call) {
  if (!call.module) return {.refusal = "its weights are not known"};
  const auto graph = inlined_graph(call);
  const auto operators = recurrent_operators(*graph);
  if (operators.empty()) return {.refusal = "its forward has no operator with a quantized kernel"};
  return weights_of(*call.module, *graph, operators.front());
}

std::size_t weights_of_first_layer(const ModuleCall& call) {
  const auto graph = inlined_graph(call);
  for (const auto& [node, row] : recurrent_operators(*graph)) {
    if (row->is_cell) return 0;
    const auto both_ways = known_value(*call.module, *graph, node->input(index_of(node, "bidirectional")));
    const auto count = known_value(*call.module, *graph, node->input(index_of(node, "num_layers")));
    if (!count || !count->isInt() || count->toInt() < 2 || !both_ways || !both_ways->isBool()) return 0;
    return both_ways->toBool() ? 4 : 2;
  }
  return 0;
}

double share_of_first_weights(const ModuleCall& call, std::size_t count) {
  const std::vector<at::Tensor> weights = recurrent_weights(call).weights;
  const auto size_of = [&](std::size_t first) {
    return std::accumulate(
        weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(first), 0.0,
        [](double sum, const at::Tensor& each) { return sum + static_cast<double>(each.numel()); });
  };
  return size_of(std::min(count, weights.size())) / std::max(1.0, size_of(weights.size()));
}

std::optional<RecurrentForm> recurrent_form(const ModuleCall& call) {
  if (!call.module || call.method.empty()) return std::nullopt;
  const auto graph = inlined_graph(call);
  const auto operators = recurrent_operators(*graph);
  if (operators.size() != 1 || operators.front().second->is_cell) return std::nullopt;
  const Node* node = operators.front().first;
  if (node->schema().overload_name() != "input") return std::nullopt;
  const auto known = [&](const char* name) {
    return known_value(*call.module, *graph, node->input(index_of(node, name)));
  };
  const auto layers = known("num_layers");
  const auto both_ways = known("bidirectional");
  const auto batch_first = known("batch_first");
  if (!layers || !layers->isInt() || !both_ways || !both_ways->isBool() || !batch_first ||
      !batch_first->isBool())
    return std::nullopt;
  return RecurrentForm{.is_lstm = node->outputs().size() == 3,
                       .layers = layers->toInt(),
                       .both_ways = both_ways->toBool(),
                       .batch_first = batch_first->toBool()};
}

std::string_view recurrent_kernel_of(const ModuleCall& call) {
  const auto operators = recurrent_operators(*inlined_graph(call));
  return operators.empty() ? std::string_view() : operators.front().second->kernel;
}

Module rounded_recurrent(const ModuleCall& call, std::span<const QParams> qparams) {
  Rewriting rewriting(call);
  for (const auto& [node, row] : recurrent_operators(rewriting.graph())) {
    const RecurrentWeights all = weights_of(*call.module, rewriting.graph(), {node, row});
    std::vector<at::Tensor> weights;
    for (std::size_t i = 0; i < all.weights.size(); ++i)
      weights.push_back(rounded(weighted_at(all, qparams, i)));
    const std::vector<Value*> values = rewriting.parameters(weights, all.biases, node);
    if (row->is_cell) {
      const std::size_t first = index_of(node, "w_ih");
      for (std::size_t i = 0; i < values.size(); ++i) node->replaceInput(first + i, values[i]);
      continue;
    }
    node->replaceInput(index_of(node, "params"), ir::list_before(node, c10::TensorType::get(), values));
  }
  return rewriting.finish();
}

namespace {

/// How many weights, those of the first layer, stay float.
std::size_t float_weights(std::span<const QParams> qparams) {
  const auto is_float = [](const QParams& each) { return each.dtype == c10::ScalarType::Float; };
  return static_cast<std::size_t>(std::ranges::find_if_not(qparams, is_float) - qparams.begin());
}

struct PackedRecurrent {
  std::vector<c10::IValue> weights{};  ///< packed, in pairs
  std::vector<at::Tensor> biases{};
};

PackedRecurrent pack_all(const RecurrentWeights& all, std::span<const QParams> qparams,
                         const kernels::RecurrentPacking& packing) {
  PackedRecurrent result;
  for (std::size_t i = float_weights(qparams); i < all.weights.size(); ++i) {
    const ir::Weighted weighted = weighted_at(all, qparams, i);
    result.weights.push_back(kernels::pack(packing.prepack, weighted));
    result.biases.push_back(weighted.bias);
  }
  return result;
}

/// The list of cell params that the kernel of a layer takes.
Value* cell_params(Rewriting& rewriting, const PackedRecurrent& packed,
                   const kernels::RecurrentPacking& packing, bool reduce_range, Node* before) {
  const c10::TypePtr type = kernels::packed_type(packing.make_cell);
  std::vector<Value*> cells;
  for (std::size_t i = 0; i < packed.weights.size(); i += 2) {
    torch::jit::Stack stack{packed.weights[i], packed.weights[i + 1]};
    if (packing.weight_dtype != c10::ScalarType::Half) {
      stack.emplace_back(packed.biases[i]);
      stack.emplace_back(packed.biases[i + 1]);
      stack.emplace_back(reduce_range);
    }
    cells.push_back(rewriting.attribute(fmt::format("cell_params_{}", i / 2),
                                        kernels::call_operator(packing.make_cell, std::move(stack)).back(),
                                        before, type));
  }
  return ir::list_before(before, type, cells);
}

Node* replace_by_kernel(const Operator& op, const std::vector<Value*>& inputs) {
  const auto& [node, row] = op;
  const auto kernel = c10::Symbol::fromQualString(std::string(row->kernel));
  Node* made = ir::insert_node(node, kernel, inputs, node->outputs().size());
  node->replaceAllUsesWith(made);
  node->destroy();
  return made;
}

/// An empty batch gets a sample, which its results lose again: the kernel of an engine takes it for no steps.
class SampleWhenEmpty {
 public:
  explicit SampleWhenEmpty(Node* kernel) : kernel_(kernel) {
    Value* values = ir::insert_before(kernel, "aten::numel", {kernel->input(0)}, c10::IntType::get());
    is_empty_ = ir::insert_before(kernel, "aten::eq", {values, number(kernel, 0)}, c10::BoolType::get());
  }

  void wrap(bool batch_first) {
    const int64_t batch = batch_first ? 0 : 1;
    kernel_->replaceInput(0, with_sample(kernel_->input(0), batch));
    Value* states = kernel_->input(1);
    if (states->type()->kind() == c10::TypeKind::ListType) {
      std::vector<Value*> padded;
      for (const int64_t i : {0, 1}) {
        Value* state = ir::insert_before(kernel_, "aten::__getitem__", {states, number(kernel_, i)});
        padded.push_back(with_sample(state, 1));
      }
      kernel_->replaceInput(1, ir::list_before(kernel_, c10::TensorType::get(), padded));
    } else {
      kernel_->replaceInput(1, with_sample(states, 1));
    }
    Node* next = kernel_->next();
    for (std::size_t i = 0; i < kernel_->outputs().size(); ++i)
      take_sample(kernel_->output(i), i == 0 ? batch : 1, next);
  }

 private:
  static Value* number(Node* before, int64_t value) { return ir::constant_before(before, value); }

  /// `value`, or what `changed` makes of it where the batch is empty.
  template <typename Change>
  Value* where_empty(Node* before, Value* value, const Change& change) {
    Node* made = ir::insert_node(before, c10::prim::If, {is_empty_});
    torch::jit::Block* changed = made->addBlock();
    changed->registerOutput(change(changed->return_node()));
    made->addBlock()->registerOutput(value);
    return made->output();
  }

  Value* with_sample(Value* value, int64_t dimension) {
    return where_empty(kernel_, value, [&](Node* end) {
      std::vector<int64_t> sides(static_cast<std::size_t>(2 * (3 - dimension)), 0);
      sides.back() = 1;
      return ir::insert_before(end, "aten::constant_pad_nd",
                               {value, ir::constant_before(end, sides), number(end, 0)});
    });
  }

  void take_sample(Value* value, int64_t dimension, Node* before) {
    Value* result = where_empty(before, value, [&](Node* end) {
      return ir::insert_before(end, "aten::narrow",
                               {value, number(end, dimension), number(end, 0), number(end, 0)});
    });
    value->replaceAllUsesAfterNodeWith(result->node(), result);
  }

  Node* kernel_;
  Value* is_empty_{};
};

void replace_layer(const Operator& op, Value* params, c10::ScalarType dtype, bool samples_when_empty) {
  const auto& [node, row] = op;
  std::vector<Value*> inputs = node->inputs().vec();
  inputs[index_of(node, "params")] = params;
  inputs[index_of(node, "has_biases")] = ir::constant_before(node, true);
  if (row->takes_dtype) {
    inputs.push_back(ir::constant_before(node, static_cast<int64_t>(dtype)));
    inputs.push_back(ir::constant_before(node, true));
  }
  // A packed sequence has no batch dimension, and is never empty.
  std::optional<bool> batch_first;
  if (node->schema().overload_name() == "input")
    batch_first = torch::jit::constant_as<bool>(node->input(index_of(node, "batch_first")));
  Node* kernel = replace_by_kernel(op, inputs);
  if (samples_when_empty && batch_first) SampleWhenEmpty(kernel).wrap(*batch_first);
}

/// A stack of layers as its first one, in float, and the others after it.
///   y, h, c = lstm(x, [h0, c0], weights, layers)
///     →   y, h1, c1 = lstm(x, [first of h0, of c0], float weights, 1)
///         y, h2, c2 = lstm(y, [rest of h0, of c0], weights, layers - 1); h = cat(h1, h2); c = cat(c1, c2)
class Stack {
 public:
  Stack(Rewriting& rewriting, Node* node, const RecurrentWeights& all, std::size_t float_weights)
      : rewriting_(rewriting), node_(node), all_(all), first_layer_(float_weights) {}

  /// The node of the layers after the first.
  Node* split() {
    const auto directions = static_cast<int64_t>(first_layer_ / 2);
    const auto others = static_cast<int64_t>(all_.weights.size() / 2) - directions;
    Value* params =
        list(rewriting_.parameters(std::span(all_.weights).first(first_layer_), all_.biases, node_));
    Node* first = layers({node_->input(0), params, 1, 0, directions});
    Node* rest = layers(
        {first->output(0), node_->input(index_of(node_, "params")), others / directions, directions, others});
    node_->output(0)->replaceAllUsesWith(rest->output(0));
    for (std::size_t i = 1; i < node_->outputs().size(); ++i) {
      Value* both = list({first->output(i), rest->output(i)});
      node_->output(i)->replaceAllUsesWith(ir::insert_before(node_, "aten::cat", {both, number(0)}));
    }
    node_->destroy();
    return rest;
  }

 private:
  struct Layers {
    Value* input{};
    Value* params{};
    int64_t count{};
    int64_t state{};   ///< the first of their states
    int64_t states{};  ///< how many they have
  };

  Value* number(int64_t value) { return ir::constant_before(node_, value); }
  Value* list(const std::vector<Value*>& tensors) {
    return ir::list_before(node_, c10::TensorType::get(), tensors);
  }

  Value* part_of(Value* states, const Layers& layers) {
    return ir::insert_before(node_, "aten::narrow",
                             {states, number(0), number(layers.state), number(layers.states)});
  }

  /// Of a list, the hidden and the cell states; of a tensor, the hidden ones.
  Value* states_of(const Layers& layers) {
    Value* given = node_->input(index_of(node_, "hx"));
    if (given->type()->kind() != c10::TypeKind::ListType) return part_of(given, layers);
    std::vector<Value*> parts;
    for (const int64_t i : {0, 1})
      parts.push_back(part_of(ir::insert_before(node_, "aten::__getitem__", {given, number(i)}), layers));
    return list(parts);
  }

  Node* layers(const Layers& layers) {
    std::vector<Value*> inputs = node_->inputs().vec();
    inputs[0] = layers.input;
    inputs[index_of(node_, "hx")] = states_of(layers);
    inputs[index_of(node_, "params")] = layers.params;
    inputs[index_of(node_, "num_layers")] = number(layers.count);
    Node* made = ir::insert_node(node_, node_->kind(), inputs, node_->outputs().size());
    for (std::size_t i = 0; i < node_->outputs().size(); ++i)
      made->output(i)->setType(node_->output(i)->type());
    return made;
  }

  Rewriting& rewriting_;
  Node* node_;
  const RecurrentWeights& all_;
  std::size_t first_layer_;
};

void replace_cell(Rewriting& rewriting, const Operator& op, const PackedRecurrent& packed,
                  const c10::TypePtr& type) {
  Node* node = op.first;
  std::vector<Value*> inputs{node->input(0), node->input(1)};
  for (std::size_t i = 0; i < 2; ++i)
    inputs.push_back(rewriting.attribute(fmt::format("packed_params_{}", i), packed.weights[i], node, type));
  for (std::size_t i = 0; i < 2; ++i)
    inputs.push_back(rewriting.attribute(fmt::format("bias_{}", i), packed.biases[i], node));
  replace_by_kernel(op, inputs);
}

}  // namespace

Module dynamic_recurrent(const ModuleCall& call, std::span<const QParams> qparams, bool reduce_range,
                         bool samples_when_empty) {
  const kernels::RecurrentPacking* packing = kernels::recurrent_packing(qparams.back().dtype);
  if (packing == nullptr) {
    throw Error(ErrorCode::Unsupported,
                fmt::format("recurrent kernels have no weights of {}", c10::toString(qparams.back().dtype)),
                "choose a qconfig whose weights are qint8 or float16");
  }
  Rewriting rewriting(call);
  std::optional<PackedRecurrent> packed;
  for (Operator op : recurrent_operators(rewriting.graph())) {
    // A cell's branches for its nonlinearities have the same weights.
    const RecurrentWeights all = weights_of(*call.module, rewriting.graph(), op);
    if (!packed) packed = pack_all(all, qparams, *packing);
    if (const std::size_t first = float_weights(qparams); first > 0)
      op.first = Stack(rewriting, op.first, all, first).split();
    if (op.second->is_cell) {
      replace_cell(rewriting, op, *packed, kernels::packed_type(packing->prepack));
    } else {
      replace_layer(op, cell_params(rewriting, *packed, *packing, reduce_range, op.first),
                    packing->weight_dtype, samples_when_empty);
    }
  }
  return rewriting.finish();
}

}  // namespace tsq::torchscript
