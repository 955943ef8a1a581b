// Models in half, bfloat16 or double precision → the same in float, between casts at inputs and outputs.
//   y = conv(x); z = softmax(y, dtype=half)   →   y = conv(float(x)); z = half(softmax(y, dtype=float))

#include "passes/capture/compute_in_float.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/constants.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "backends/dtypes.h"
#include "ir/analysis.h"
#include "ir/edit.h"

namespace tsq::passes {
namespace {

using c10::ScalarType;
using c10::TypeKind;
using ir::Model;
using ir::Node;
using ir::Value;
using torch::jit::Graph;
using torch::jit::Module;
using Dtypes = std::set<ScalarType>;

/// What this pass replaces; the complex dtypes are those of a Fourier transform of the others.
constexpr std::array kReplaceable{ScalarType::Half, ScalarType::BFloat16, ScalarType::Double};

bool is_replaceable(ScalarType dtype) {
  return std::find(kReplaceable.begin(), kReplaceable.end(), dtype) != kReplaceable.end();
}

/// The dtype in whose place another one is used; the dtype itself where it stays.
ScalarType replacement(const Dtypes& replaced, ScalarType dtype) {
  if (replaced.contains(dtype)) return ScalarType::Float;
  const bool is_wide = dtype == ScalarType::ComplexDouble && replaced.contains(ScalarType::Double);
  const bool is_narrow = dtype == ScalarType::ComplexHalf && replaced.contains(ScalarType::Half);
  return is_wide || is_narrow ? ScalarType::ComplexFloat : dtype;
}

bool is_tensor(const Value* value) { return value->type()->kind() == TypeKind::TensorType; }

std::vector<std::shared_ptr<Graph>> graphs_of(const Model& gm) {
  std::vector<std::shared_ptr<Graph>> graphs{gm.graph};
  for (const ir::Method& method : gm.methods) graphs.push_back(method.graph);
  return graphs;
}

/// The tensor that a value holds whenever the model runs: a parameter, a buffer or a constant; undefined:
/// none.
at::Tensor held_tensor(const Model& gm, const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::Constant) {
    const auto constant = torch::jit::toIValue(value);
    return constant && constant->isTensor() ? constant->toTensor() : at::Tensor();
  }
  if (node->kind() != c10::prim::GetAttr) return {};
  const std::string& name = node->s(c10::attr::name);
  const bool is_held = node->input(0)->node()->kind() == c10::prim::Param && gm.attributes.hasattr(name);
  if (!is_held) return {};
  const c10::IValue attribute = gm.attributes.attr(name);
  return attribute.isTensor() ? attribute.toTensor() : at::Tensor();
}

// What a node is told of dtypes.

std::optional<std::size_t> argument_position(const Node* node, const std::string& name) {
  const c10::FunctionSchema* schema = nullptr;
  std::size_t first = 0;
  if (node->kind() == c10::prim::CallFunction) {
    const auto function = node->input(0)->type()->cast<c10::FunctionType>();
    if (!function) return std::nullopt;
    schema = &function->function()->getSchema();
    first = 1;
  } else if (node->kind().is_aten()) {
    schema = node->maybeSchema();
  }
  if (schema == nullptr) return std::nullopt;
  const auto index = schema->argumentIndexWithName(name);
  if (!index || static_cast<std::size_t>(*index) + first >= node->inputs().size()) return std::nullopt;
  return static_cast<std::size_t>(*index) + first;
}

/// Where a node is told the dtype of its result. view(dtype) reads the bytes of a tensor anew: it converts
/// nothing.
std::optional<std::size_t> dtype_position(const Node* node) {
  if (node->kind() == c10::aten::view) return std::nullopt;
  return argument_position(node, "dtype");
}

std::optional<ScalarType> constant_dtype(const Node* node) {
  const auto position = dtype_position(node);
  const auto constant = position ? torch::jit::toIValue(node->input(*position)) : std::nullopt;
  return constant && constant->isInt() ? std::optional(static_cast<ScalarType>(constant->toInt()))
                                       : std::nullopt;
}

// Which dtypes are replaced.

/// Operators whose parameters tell in which dtype they compute.
constexpr std::array<std::string_view, 28> kLayers{"aten::linear",
                                                   "aten::conv1d",
                                                   "aten::conv2d",
                                                   "aten::conv3d",
                                                   "aten::conv_transpose1d",
                                                   "aten::conv_transpose2d",
                                                   "aten::conv_transpose3d",
                                                   "aten::_convolution",
                                                   "aten::_convolution_mode",
                                                   "aten::convolution",
                                                   "aten::matmul",
                                                   "aten::mm",
                                                   "aten::bmm",
                                                   "aten::addmm",
                                                   "aten::einsum",
                                                   "aten::embedding",
                                                   "aten::embedding_bag",
                                                   "aten::batch_norm",
                                                   "aten::layer_norm",
                                                   "aten::group_norm",
                                                   "aten::prelu",
                                                   "aten::lstm",
                                                   "aten::gru",
                                                   "aten::rnn_tanh",
                                                   "aten::rnn_relu",
                                                   "aten::lstm_cell",
                                                   "aten::gru_cell",
                                                   "aten::scaled_dot_product_attention"};

bool is_layer(const Node* node) {
  if (node->kind() == c10::prim::CallFunction) return true;
  return std::find(kLayers.begin(), kLayers.end(), node->kind().toQualString()) != kLayers.end();
}

void add_parameters(const Module& module, Dtypes& found) {
  for (const Module& each : module.modules()) {
    for (const auto& attribute : each.named_attributes(/*recurse=*/false)) {
      if (!attribute.value.isTensor() || !attribute.value.toTensor().defined()) continue;
      const at::Tensor& tensor = attribute.value.toTensor();
      if (tensor.dim() > 0 && is_replaceable(tensor.scalar_type())) found.insert(tensor.scalar_type());
    }
  }
}

/// The dtype of a parameter, also where it is cast each time that the model runs, as autocast does.
void add_parameter(const Model& gm, const Value* value, Dtypes& found) {
  std::optional<ScalarType> dtype;
  while (!held_tensor(gm, value).defined() && !value->node()->inputs().empty() &&
         (value->node()->kind() == c10::aten::to || value->node()->kind() == c10::aten::t)) {
    if (!dtype) dtype = constant_dtype(value->node());
    value = value->node()->input(0);
  }
  const at::Tensor tensor = held_tensor(gm, value);
  if (!tensor.defined() || tensor.dim() == 0 || !tensor.is_floating_point()) return;
  if (!dtype) dtype = tensor.scalar_type();
  if (is_replaceable(*dtype)) found.insert(*dtype);
}

/// The dtypes other than float in which layers have their parameters.
Dtypes dtypes_of_layers(const Model& gm) {
  Dtypes found;
  for (const auto& graph : graphs_of(gm)) {
    for (const Node* node : ir::nodes_in_order(*graph)) {
      if (ir::is_module_call(node)) {
        if (const auto& module = ir::call_of(gm, node).module) add_parameters(*module, found);
      } else if (is_layer(node)) {
        for (const Value* operand : ir::operands(node)) add_parameter(gm, operand, found);
      }
    }
  }
  return found;
}

// What the dtypes of values are in the model.

/// The dtype of a floating-point value as far as it can be told: one that is known, or that of an input of
/// the model, or the wider of the two. Neither: numbers, integers, or nothing is known.
struct Origin {
  std::optional<ScalarType> dtype{};
  const Value* input{};
  [[nodiscard]] bool is_known() const { return dtype.has_value() || input != nullptr; }
};

/// Operators whose result has the dtype of their first argument, whatever that of their parameters is.
constexpr std::array<std::string_view, 4> kNormOperators{"aten::batch_norm", "aten::layer_norm",
                                                         "aten::group_norm", "aten::instance_norm"};
/// Operators that make a tensor without dimensions, or one of integers, unless they are told a dtype.
constexpr std::array<std::string_view, 6> kMakesNumbers{
    "aten::tensor", "aten::scalar_tensor", "aten::arange", "aten::randint", "aten::randperm", "aten::full"};
/// Operators that give their argument the dtype of another.
constexpr std::array<std::string_view, 2> kTakesDtypeOfOther{"aten::type_as", "aten::to"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Origins {
 public:
  Origins(const Model& gm, Graph& graph) : gm_(gm) {
    for (const Value* input : graph.inputs().slice(1)) {
      if (ir::holds_tensor(input)) origins_[input] = {.input = input};
    }
    visit(graph.block());
  }

  [[nodiscard]] Origin of(const Value* value) const {
    const auto found = origins_.find(value);
    return found == origins_.end() ? Origin{} : found->second;
  }

  /// Whether a value is of floating point without doubt.
  [[nodiscard]] bool is_float(const Value* value) const { return floats_.contains(value); }

  /// The result of an operator on two values.
  [[nodiscard]] static Origin joined(const Origin& a, const Origin& b) {
    Origin both{.dtype = a.dtype ? a.dtype : b.dtype, .input = a.input != nullptr ? a.input : b.input};
    if (a.dtype && b.dtype) both.dtype = c10::promoteTypes(*a.dtype, *b.dtype);
    return both;
  }

 private:
  void visit(const torch::jit::Block* block) {
    for (const Node* node : block->nodes()) visit(node);
  }

  void visit(const Node* node) {
    if (node->kind() == c10::prim::If) return visit_branches(node);
    if (node->kind() == c10::prim::Loop) return visit_loop(node);
    for (const torch::jit::Block* block : node->blocks()) visit(block);
    if (fills_container(node)) return fill(node);
    const Origin origin = origin_of(node);
    for (const Value* output : node->outputs()) {
      if (ir::holds_tensor(output)) set(output, origin);
    }
  }

  static bool fills_container(const Node* node) {
    const c10::FunctionSchema* schema = node->kind().is_aten() ? node->maybeSchema() : nullptr;
    if (schema == nullptr || !schema->is_mutable() || node->inputs().empty()) return false;
    const TypeKind kind = node->input(0)->type()->kind();
    return kind == TypeKind::ListType || kind == TypeKind::DictType;
  }

  /// A list or dict has the dtype of what is put into it.
  void fill(const Node* node) {
    for (const Value* input : node->inputs().slice(1)) add(node->input(0), input);
    for (const Value* output : node->outputs()) add(output, node->input(0));
  }

  void visit_branches(const Node* node) {
    for (const torch::jit::Block* block : node->blocks()) {
      visit(block);
      for (std::size_t i = 0; i < node->outputs().size(); ++i) add(node->output(i), block->outputs()[i]);
    }
  }

  /// A value that comes around may be wider than what went in: two turns show it.
  void visit_loop(const Node* node) {
    const torch::jit::Block* body = node->blocks()[0];
    for (std::size_t i = 0; i < node->outputs().size(); ++i) add(body->inputs()[i + 1], node->input(i + 2));
    for (int turn = 0; turn < 2; ++turn) {
      visit(body);
      for (std::size_t i = 0; i < node->outputs().size(); ++i)
        add(body->inputs()[i + 1], body->outputs()[i + 1]);
    }
    for (std::size_t i = 0; i < node->outputs().size(); ++i) add(node->output(i), body->inputs()[i + 1]);
  }

  void set(const Value* value, const Origin& origin) {
    if (origin.is_known()) origins_[value] = origin;
  }
  void add(const Value* to, const Value* from) {
    if (ir::holds_tensor(to)) set(to, joined(of(to), of(from)));
  }

  Origin of_operands(const Node* node) const {
    Origin origin;
    for (const Value* operand : ir::operands(node)) origin = joined(origin, of(operand));
    return origin;
  }

  Origin origin_of(const Node* node) {
    const at::Tensor held = node->outputs().size() == 1 ? held_tensor(gm_, node->output()) : at::Tensor();
    if (held.defined()) {
      if (held.is_floating_point() && held.dim() > 0) floats_.insert(node->output());
      const bool counts = held.is_floating_point() && held.dim() > 0;
      return counts ? Origin{.dtype = held.scalar_type()} : Origin{};
    }
    if (ir::is_module_call(node)) return of_module(node);
    const std::string_view kind = node->kind().toQualString();
    if (is_one_of(kNormOperators, kind)) return of(node->input(0));
    if (is_one_of(kTakesDtypeOfOther, kind) && argument_position(node, "other"))
      return of(node->input(*argument_position(node, "other")));
    if (const auto position = dtype_position(node)) {
      const Value* dtype = node->input(*position);
      if (const auto constant = constant_dtype(node)) {
        if (has_no_dimensions(node->output(0))) return {};
        const bool is_float = c10::isFloatingType(*constant);
        if (is_float && node->outputs().size() == 1) floats_.insert(node->output());
        return is_float ? Origin{.dtype = constant} : Origin{};
      }
      if (dtype->node()->kind() == c10::prim::dtype) return of(dtype->node()->input(0));
    }
    if (kind == "aten::linear" || kind.starts_with("aten::conv") || kind.starts_with("aten::_convolution")) {
      floats_.insert(node->output());
      if (const Origin weight = of(node->input(1)); weight.dtype) return weight;
    }
    return is_factory(node) ? Origin{.dtype = ScalarType::Float} : of_operands(node);
  }

  /// Whether a value is a number in a tensor, which does not widen what it is multiplied with, whatever its
  /// dtype. Traces cast each such literal to the dtype that it has.
  [[nodiscard]] bool has_no_dimensions(const Value* value) const {
    if (const at::Tensor held = held_tensor(gm_, value); held.defined()) return held.dim() == 0;
    const Node* node = value->node();
    if (node->kind() == c10::aten::tensor || node->kind() == c10::aten::scalar_tensor)
      return node->input(0)->type()->kind() != TypeKind::ListType;
    const bool copies = node->kind() == c10::aten::to || node->kind() == c10::aten::detach;
    return copies && has_no_dimensions(node->input(0));
  }

  /// Tensors that are made of nothing are float unless they are told otherwise.
  static bool is_factory(const Node* node) {
    const auto operands = ir::operands(node);
    return node->kind().is_aten() && node->outputs().size() == 1 && is_tensor(node->output()) &&
           std::none_of(operands.begin(), operands.end(), ir::holds_tensor) &&
           !is_one_of(kMakesNumbers, node->kind().toQualString());
  }

  Origin of_module(const Node* node) {
    const ir::ModuleCall& call = ir::call_of(gm_, node);
    const bool is_norm = call.type.name.find("Norm") != std::string_view::npos;
    if (is_norm || !call.module) return of_operands(node);
    for (const at::Tensor& parameter : call.module->parameters()) {
      if (!parameter.is_floating_point()) continue;
      if (node->outputs().size() == 1 && is_tensor(node->output())) floats_.insert(node->output());
      return {.dtype = parameter.scalar_type()};
    }
    return of_operands(node);
  }

  const Model& gm_;
  std::map<const Value*, Origin> origins_;
  std::set<const Value*> floats_;
};

// Parameters.

/// Tensors in float, each once, however many places hold it.
class FloatTensors {
 public:
  explicit FloatTensors(const Dtypes& replaced) : replaced_(replaced) {}

  c10::IValue of(const c10::IValue& value) {
    if (value.isTensor()) return of(value.toTensor());
    if (value.isTuple()) {
      std::vector<c10::IValue> elements;
      for (const c10::IValue& element : value.toTupleRef().elements()) elements.push_back(of(element));
      return value.type()->cast<c10::TupleType>()->schema() != nullptr
                 ? c10::IValue(c10::ivalue::Tuple::createNamed(std::move(elements),
                                                               value.type()->cast<c10::TupleType>()))
                 : c10::IValue(c10::ivalue::Tuple::create(std::move(elements)));
    }
    if (value.isList()) {
      const c10::List<c10::IValue> from = value.toList();
      c10::impl::GenericList list(from.elementType());
      for (const c10::IValue& element : from) list.push_back(of(element));
      return list;
    }
    if (value.isGenericDict()) {
      const auto from = value.toGenericDict();
      c10::impl::GenericDict dict(from.keyType(), from.valueType());
      for (const auto& entry : from) dict.insert(entry.key(), of(entry.value()));
      return dict;
    }
    if (value.isModule()) replace_in(value.toModule());
    return value;
  }

  at::Tensor of(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.layout() != at::kStrided) return tensor;
    const ScalarType dtype = replacement(replaced_, tensor.scalar_type());
    if (dtype == tensor.scalar_type()) return tensor;
    at::Tensor& made =
        made_[{tensor.const_data_ptr(), tensor.scalar_type(), tensor.sizes().vec(), tensor.strides().vec()}];
    if (!made.defined()) made = tensor.detach().to(dtype).requires_grad_(tensor.requires_grad());
    return made;
  }

  /// `module` is a copy of the user's module, and so are its children.
  void replace_in(Module module) {
    const auto type = module.type();
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
      const std::string& name = type->getAttributeName(i);
      const c10::IValue value = module.attr(name);
      if (!holds_tensors(type->getAttribute(i)) && !value.isModule()) continue;
      module.setattr(name, of(value));
    }
  }

 private:
  static bool holds_tensors(const c10::TypePtr& type) {
    if (type->kind() == TypeKind::TensorType) return true;
    const auto inner = type->containedTypes();
    return std::any_of(inner.begin(), inner.end(), holds_tensors);
  }

  const Dtypes& replaced_;
  std::map<std::tuple<const void*, ScalarType, std::vector<int64_t>, std::vector<int64_t>>, at::Tensor> made_;
};

// Dtypes that the code of leaf modules tells.

/// A tensor that becomes another one; undefined: it stays.
at::Tensor replaced_constant(const Node* node, FloatTensors& tensors) {
  const auto constant =
      node->kind() == c10::prim::Constant ? torch::jit::toIValue(node->output()) : std::nullopt;
  if (!constant || !constant->isTensor() || !constant->toTensor().defined()) return {};
  // Tracing writes numbers as tensors without dimensions, of dtype double.
  const at::Tensor& tensor = constant->toTensor();
  if (tensor.dim() == 0 && tensor.scalar_type() == ScalarType::Double) return {};
  const at::Tensor made = tensors.of(tensor);
  return made.is_same(tensor) ? at::Tensor() : made;
}

bool tells_replaced_dtype(const Node* node, const Dtypes& replaced) {
  const auto dtype = constant_dtype(node);
  return dtype && replacement(replaced, *dtype) != *dtype;
}

/// Replaces the dtype that a node is told.
void replace_told_dtype(Node* node, const Dtypes& replaced) {
  const auto dtype = static_cast<int64_t>(replacement(replaced, *constant_dtype(node)));
  const torch::jit::WithInsertPoint guard(node);
  node->replaceInput(*dtype_position(node), node->owningGraph()->insertConstant(dtype));
}

void replace_constant(Node* node, const at::Tensor& made) {
  const torch::jit::WithInsertPoint guard(node);
  node->output()->replaceAllUsesWith(node->owningGraph()->insertConstant(made));
}

template <typename Visit>
void for_each_node_of_methods(const Module& module, const Visit& visit) {
  for (const Module& each : module.modules()) {
    for (const auto& method : each.get_methods()) {
      for (Node* node : ir::nodes_in_order(*torch::jit::toGraphFunction(method.function()).graph()))
        visit(node);
    }
  }
}

/// A leaf module whose code tells dtypes or holds tensors, as tracing writes it, gets code of its own.
void replace_in_code(Module& module, const Dtypes& replaced, FloatTensors& tensors) {
  bool is_concerned = false;
  for_each_node_of_methods(module, [&](const Node* node) {
    is_concerned |= tells_replaced_dtype(node, replaced) || replaced_constant(node, tensors).defined();
  });
  if (!is_concerned) return;
  module = module.clone(/*inplace=*/true);
  for_each_node_of_methods(module, [&](Node* node) {
    if (tells_replaced_dtype(node, replaced)) {
      replace_told_dtype(node, replaced);
    } else if (const at::Tensor made = replaced_constant(node, tensors); made.defined()) {
      replace_constant(node, made);
    }
  });
}

// Casts.

/// Writes the source of a module that casts the tensors in a value of some type, containers looked through.
class CastSource {
 public:
  /// `tensor`: statements that change `x`.
  CastSource(const c10::TypePtr& type, const std::string& tensor, bool has_like) : tensor_(tensor) {
    if (has_like) {
      source_ =
          fmt::format("def forward(self, x: Tensor, like: Tensor) -> Tensor:\n{}    return x\n", tensor_);
      is_possible_ = type->kind() == TypeKind::TensorType;
      return;
    }
    const std::string cast = method_for(type);
    const std::string text = type->annotation_str();
    source_ += fmt::format("def forward(self, x: {}) -> {}:\n    return self.{}(x)\n", text, text, cast);
    is_possible_ = !cast.empty();
  }

  [[nodiscard]] bool is_possible() const { return is_possible_; }
  [[nodiscard]] const std::string& text() const { return source_; }

 private:
  /// The name of the method that casts values of `type`; empty where there can be none.
  std::string method_for(const c10::TypePtr& type) {
    switch (type->kind()) {
      case TypeKind::TensorType:
        return method(type, tensor_ + "    return x\n");
      case TypeKind::ListType:
        return of_elements(type, type->containedType(0),
                           "    result: {0} = []\n    for e in x:\n        result.append(self.{1}(e))\n    "
                           "return result\n");
      case TypeKind::DictType:
        return of_elements(type, type->containedType(1),
                           "    result: {0} = {{}}\n    for k, v in x.items():\n        result[k] = "
                           "self.{1}(v)\n    return result\n");
      case TypeKind::OptionalType:
        return of_elements(type, type->containedType(0),
                           "    result: {0} = None\n    if x is not None:\n        result = self.{1}(x)\n    "
                           "return result\n");
      case TypeKind::TupleType:
        return of_tuple(type);
      case TypeKind::IntType:
      case TypeKind::FloatType:
      case TypeKind::BoolType:
      case TypeKind::StringType:
        return method(type, "    return x\n");
      default:
        return {};
    }
  }

  std::string of_elements(const c10::TypePtr& type, const c10::TypePtr& element, const std::string& body) {
    const std::string inner = method_for(element);
    return inner.empty() ? inner
                         : method(type, fmt::format(fmt::runtime(body), type->annotation_str(), inner));
  }

  std::string of_tuple(const c10::TypePtr& type) {
    if (type->cast<c10::TupleType>()->schema() != nullptr) return {};
    std::string elements;
    for (std::size_t i = 0; i < type->containedTypeSize(); ++i) {
      const std::string inner = method_for(type->containedType(i));
      if (inner.empty()) return {};
      elements += fmt::format("self.{}(x[{}]), ", inner, i);
    }
    return method(type, fmt::format("    return ({})\n", elements));
  }

  std::string method(const c10::TypePtr& type, const std::string& body) {
    const std::string name = fmt::format("cast_{}", methods_++);
    const std::string text = type->annotation_str();
    source_ += fmt::format("def {}(self, x: {}) -> {}:\n{}", name, text, text, body);
    return name;
  }

  std::string tensor_;
  std::string source_;
  int methods_{0};
  bool is_possible_{false};
};

std::string names_of(const Dtypes& dtypes) {
  std::vector<std::string> names;
  for (const ScalarType dtype : dtypes) names.emplace_back(dtype_name(dtype));
  return fmt::format("{}", fmt::join(names, " and "));
}

/// Whether some operator of the graph writes into a tensor.
bool writes_tensors(Graph& graph) {
  const auto nodes = ir::nodes_in_order(graph);
  return std::any_of(nodes.begin(), nodes.end(), [](const Node* node) {
    return node->kind().is_aten() && node->maybeSchema() != nullptr && node->schema().is_mutable();
  });
}

class Casting {
 public:
  Casting(Model& gm, const Dtypes& replaced, FloatTensors& tensors, Graph& graph)
      : gm_(gm),
        replaced_(replaced),
        tensors_(tensors),
        graph_(graph),
        origins_(gm, graph),
        writes_(writes_tensors(graph)) {}

  void run() {
    for (Node* node : ir::nodes_in_order(graph_)) {
      forget_dtypes(node);
      if (const at::Tensor made = replaced_constant(node, tensors_); made.defined())
        replace_constant(node, made);
      replace_dtype(node);
    }
    cast_inputs();
    cast_outputs();
    ir::eliminate_dead_code(graph_);
  }

 private:
  static void forget_dtypes(Node* node) {
    for (Value* output : node->outputs()) {
      const auto type = output->type()->cast<c10::TensorType>();
      if (type && type->scalarType()) output->setType(c10::TensorType::get());
    }
  }

  [[nodiscard]] bool becomes_float(ScalarType dtype) const {
    return replacement(replaced_, dtype) == ScalarType::Float;
  }

  void replace_dtype(Node* node) {
    const auto dtype = constant_dtype(node);
    if (!dtype) return;
    if (tells_replaced_dtype(node, replaced_)) replace_told_dtype(node, replaced_);
    if (node->kind() == c10::aten::to && becomes_float(*dtype)) replace_cast(node, *dtype);
  }

  /// What was a copy in another dtype would now be the same tensor.
  void replace_cast(Node* node, ScalarType dtype) {
    Value* source = node->input(0);
    const Origin origin = origins_.of(source);
    const bool was_float = origin.dtype && becomes_float(*origin.dtype) && origins_.is_float(source);
    if (was_float && !writes_) {
      node->output()->replaceAllUsesWith(source);
    } else if (const auto copy = argument_position(node, "copy"); copy && writes_ && origin.dtype != dtype) {
      const torch::jit::WithInsertPoint guard(node);
      node->replaceInput(*copy, graph_.insertConstant(true));
    }
  }

  // Inputs and outputs.

  [[nodiscard]] std::string is_replaced(std::string_view value) const {
    std::vector<std::string> tests;
    for (const ScalarType dtype : replaced_)
      tests.push_back(fmt::format("{}.dtype == {}", value, static_cast<int>(dtype)));
    return fmt::format("{}", fmt::join(tests, " or "));
  }

  static std::string to(std::string_view condition, std::string_view dtype) {
    return fmt::format("    if {}:\n        x = x.to(dtype={})\n", condition, dtype);
  }
  static std::string is_now_float() {
    return fmt::format("x.dtype == {}", static_cast<int>(ScalarType::Float));
  }

  Value* insert_call(const c10::TypePtr& type, const std::string& tensor, std::vector<Value*> inputs) {
    const CastSource source(type, tensor, /*has_like=*/inputs.size() > 1);
    if (!source.is_possible()) {
      throw Error(ErrorCode::Unsupported,
                  fmt::format("the model computes in {}, and a value of type {} at its inputs or outputs "
                              "cannot be cast to float",
                              names_of(replaced_), type->annotation_str()),
                  "convert the model to float before it is scripted (model.float())");
    }
    Module module("__torch__.tsq.Cast", std::make_shared<torch::jit::CompilationUnit>());
    module.define(source.text());
    const std::string path =
        inputs[0]->hasDebugName() ? "cast_" + inputs[0]->debugNameBase() : std::string("cast");
    Node* node = &graph_ == gm_.graph.get() ? call_in_forward(module, path, inputs)
                                            : call_in_method(module, path, inputs);
    node->output()->setType(type);
    graph_.insertNode(node);
    return node->output();
  }

  Node* call_in_forward(const Module& module, const std::string& path, const std::vector<Value*>& inputs) {
    ir::ModuleCall call{.type = symbol(kCastType), .path = path, .module = module};
    call.constants = {c10::IValue(names_of(replaced_))};
    return ir::create_module_call(gm_, std::move(call), inputs, /*scope=*/0);
  }

  /// Methods hold calls as TorchScript writes them.
  Node* call_in_method(const Module& module, const std::string& path, std::vector<Value*> inputs) {
    const std::string name = ir::unique_attribute_name(gm_, path);
    gm_.attributes.register_attribute(name, module.type(), module._ivalue());
    Node* attribute = graph_.insertNode(graph_.create(c10::prim::GetAttr, {graph_.inputs().at(0)}, 1));
    attribute->s_(c10::attr::name, name);
    attribute->output()->setType(module.type());
    inputs.insert(inputs.begin(), attribute->output());
    Node* node = graph_.create(c10::prim::CallMethod, inputs, 1);
    node->s_(c10::attr::name, "forward");
    return node;
  }

  void cast_inputs() {
    const torch::jit::WithInsertPoint guard(*graph_.nodes().begin());
    const std::string to_float = to(is_replaced("x"), std::to_string(static_cast<int>(ScalarType::Float)));
    for (Value* input : graph_.inputs().slice(1).vec()) {
      if (!ir::holds_tensor(input) || !input->hasUses()) continue;
      if (is_tensor(input)) input->setType(c10::TensorType::get());
      const std::vector<torch::jit::Use> uses = input->uses();
      Value* cast =
          cast_value(input, [&](Value* value) { return insert_call(value->type(), to_float, {value}); });
      for (const torch::jit::Use& use : uses) replace_use(use, cast);
      inputs_of_casts_[cast] = input;
    }
  }

  /// What unpacks a tuple reads its parts.
  static void replace_use(const torch::jit::Use& use, Value* cast) {
    const Node* tuple = cast->node();
    if (use.user->kind() != c10::prim::TupleUnpack || tuple->kind() != c10::prim::TupleConstruct) {
      use.user->replaceInput(use.offset, cast);
      return;
    }
    for (std::size_t i = 0; i < use.user->outputs().size(); ++i) {
      const std::vector<torch::jit::Use> uses = use.user->output(i)->uses();
      Value* part = const_cast<Value*>(tuple->input(i));
      for (const torch::jit::Use& each : uses) replace_use(each, part);
    }
  }

  /// The parts of a tuple one by one, so that what reads them sees tensors.
  template <typename Cast>
  Value* cast_value(Value* value, const Cast& cast) {
    const auto tuple = value->type()->cast<c10::TupleType>();
    if (!tuple) return ir::holds_tensor(value) ? cast(value) : value;
    Node* unpack = graph_.insertNode(graph_.createTupleUnpack(value));
    std::vector<Value*> parts;
    for (Value* part : unpack->outputs()) parts.push_back(cast_value(part, cast));
    Node* made = graph_.insertNode(graph_.createTuple(parts, tuple->schema() != nullptr ? tuple : nullptr));
    return made->output();
  }

  void cast_outputs() {
    const torch::jit::WithInsertPoint guard(graph_.return_node());
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
      graph_.return_node()->replaceInput(i, cast_output(graph_.outputs()[i]));
  }

  Value* cast_output(Value* value) {
    if (!ir::holds_tensor(value)) return value;
    if (ir::is_container_construct(value->node()) && value->uses().size() == 1) {
      Node* container = value->node();
      for (std::size_t i = 0; i < container->inputs().size(); ++i) {
        const torch::jit::WithInsertPoint guard(container);
        container->replaceInput(i, cast_output(container->input(i)));
      }
      return value;
    }
    if (const auto found = inputs_of_casts_.find(value); found != inputs_of_casts_.end())
      return found->second;
    const Origin origin = origins_.of(value);
    if (origin.input != nullptr && is_tensor(value) && is_tensor(origin.input))
      return insert_call(value->type(), to_dtype_of(origin), {value, const_cast<Value*>(origin.input)});
    // The elements of a list in an input have its layers' dtype.
    const ScalarType dtype =
        origin.dtype.value_or(origin.input != nullptr ? *replaced_.begin() : ScalarType::Float);
    if (!replaced_.contains(dtype)) return value;
    return cast_value(value, [&](Value* part) {
      return insert_call(part->type(), to(is_now_float(), std::to_string(static_cast<int>(dtype))), {part});
    });
  }

  /// Casts `x` to the dtype of `like`, or to the wider of that and the known one.
  [[nodiscard]] std::string to_dtype_of(const Origin& origin) const {
    std::string source = fmt::format("    if {}:\n", is_now_float());
    std::string_view branch = "if";
    const auto add = [&](const std::string& condition, ScalarType dtype) {
      source += fmt::format("        {}{}:\n            x = x.to(dtype={})\n", branch, condition,
                            static_cast<int>(dtype));
      branch = "elif";
    };
    Dtypes of_input = replaced_;
    of_input.insert(ScalarType::Float);
    for (const ScalarType dtype : of_input) {
      add(fmt::format(" like.dtype == {}", static_cast<int>(dtype)),
          origin.dtype ? c10::promoteTypes(dtype, *origin.dtype) : dtype);
    }
    branch = "else";
    if (origin.dtype) add("", *origin.dtype);
    return source;
  }

  Model& gm_;
  const Dtypes& replaced_;
  FloatTensors& tensors_;
  Graph& graph_;
  Origins origins_;
  bool writes_;
  std::map<const Value*, Value*> inputs_of_casts_;
};

}  // namespace

void compute_in_float(Model& gm) {
  const Dtypes replaced = dtypes_of_layers(gm);
  if (replaced.empty()) return;
  FloatTensors tensors(replaced);
  // Dtypes of values are told by the parameters as they are in the model.
  for (const auto& graph : graphs_of(gm)) Casting(gm, replaced, tensors, *graph).run();
  tensors.replace_in(gm.attributes);
  for (ir::ModuleCall& call : gm.calls) {
    if (!call.module || call.type.name == kCastType) continue;
    replace_in_code(*call.module, replaced, tensors);
    tensors.replace_in(*call.module);
  }
}

}  // namespace tsq::passes
