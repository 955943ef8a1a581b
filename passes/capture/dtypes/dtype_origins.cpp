#include "passes/capture/dtypes/dtype_origins.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/analysis.h"
#include "passes/capture/dtypes/replaced_dtypes.h"
#include "passes/capture/dtypes/told_dtypes.h"
#include "passes/context/names.h"

namespace tsq::passes {
namespace {

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

bool is_tensor(const Value* value) { return value->type()->kind() == TypeKind::TensorType; }

/// The result of an operator on two values.
DtypeOrigin joined(const DtypeOrigin& a, const DtypeOrigin& b) {
  DtypeOrigin both{.dtype = a.dtype ? a.dtype : b.dtype, .input = a.input != nullptr ? a.input : b.input};
  if (a.dtype && b.dtype) both.dtype = c10::promoteTypes(*a.dtype, *b.dtype);
  return both;
}

/// Whether a value is a number in a tensor, which does not widen what it is multiplied with, whatever its
/// dtype. Traces cast each such literal to the dtype that it has.
bool has_no_dimensions(const Model& model, const Value* value) {
  if (const at::Tensor held = lasting_tensor(model, value); held.defined()) return held.dim() == 0;
  const Node* node = value->node();
  if (node->kind() == c10::aten::tensor || node->kind() == c10::aten::scalar_tensor)
    return node->input(0)->type()->kind() != TypeKind::ListType;
  const bool copies = node->kind() == c10::aten::to || node->kind() == c10::aten::detach;
  return copies && has_no_dimensions(model, node->input(0));
}

/// Whether an operator makes a tensor of nothing: such are float unless they are told otherwise.
bool is_factory(const Node* node) {
  return node->kind().is_aten() && node->outputs().size() == 1 && is_tensor(node->output()) &&
         std::ranges::none_of(ir::operands(node), ir::holds_tensor) &&
         !is_one_of(kMakesNumbers, node->kind().toQualString());
}

bool fills_container(const Node* node) {
  const c10::FunctionSchema* schema = node->kind().is_aten() ? node->maybeSchema() : nullptr;
  if (schema == nullptr || !schema->is_mutable() || node->inputs().empty()) return false;
  const TypeKind kind = node->input(0)->type()->kind();
  return kind == TypeKind::ListType || kind == TypeKind::DictType;
}

/// Follows the dtypes through a graph.
class OriginSearch {
 public:
  OriginSearch(const Model& model, DtypeOrigins& origins) : model_(model), origins_(origins) {}

  void visit(const ir::Block* block) {
    for (const Node* node : block->nodes()) visit(node);
  }

 private:
  void visit(const Node* node) {
    if (node->kind() == c10::prim::If) return visit_branches(node);
    if (node->kind() == c10::prim::Loop) return visit_loop(node);
    for (const ir::Block* block : node->blocks()) visit(block);
    if (fills_container(node)) return fill(node);
    const DtypeOrigin origin = origin_of(node);
    for (const Value* output : node->outputs()) {
      if (ir::holds_tensor(output)) set(output, origin);
    }
  }

  /// A list or dict has the dtype of what is put into it.
  void fill(const Node* node) {
    for (const Value* input : node->inputs().slice(1)) add(node->input(0), input);
    for (const Value* output : node->outputs()) add(output, node->input(0));
  }

  void visit_branches(const Node* node) {
    for (const ir::Block* block : node->blocks()) {
      visit(block);
      for (std::size_t i = 0; i < node->outputs().size(); ++i) add(node->output(i), block->outputs()[i]);
    }
  }

  /// A value that comes around may be wider than what went in: two turns show it.
  void visit_loop(const Node* node) {
    const ir::Block* body = node->blocks()[0];
    for (std::size_t i = 0; i < node->outputs().size(); ++i) add(body->inputs()[i + 1], node->input(i + 2));
    for (int turn = 0; turn < 2; ++turn) {
      visit(body);
      for (std::size_t i = 0; i < node->outputs().size(); ++i)
        add(body->inputs()[i + 1], body->outputs()[i + 1]);
    }
    for (std::size_t i = 0; i < node->outputs().size(); ++i) add(node->output(i), body->inputs()[i + 1]);
  }

  void set(const Value* value, const DtypeOrigin& origin) {
    if (origin.dtype || origin.input != nullptr) origins_.known[value] = origin;
  }
  void add(const Value* to, const Value* from) {
    if (ir::holds_tensor(to)) set(to, joined(origins_.of(to), origins_.of(from)));
  }
  void set_float(const Node* node) {
    if (node->outputs().size() == 1) origins_.floats.insert(node->output());
  }

  [[nodiscard]] DtypeOrigin of_operands(const Node* node) const {
    DtypeOrigin origin;
    for (const Value* operand : ir::operands(node)) origin = joined(origin, origins_.of(operand));
    return origin;
  }

  DtypeOrigin origin_of(const Node* node) {
    const at::Tensor held =
        node->outputs().size() == 1 ? lasting_tensor(model_, node->output()) : at::Tensor();
    if (held.defined()) return of_held(node, held);
    if (ir::is_module_call(node)) return of_module(node);
    const std::string_view kind = node->kind().toQualString();
    if (is_one_of(kNormOperators, kind)) return origins_.of(node->input(0));
    if (is_one_of(kTakesDtypeOfOther, kind)) {
      if (const auto other = argument_position(node, "other")) return origins_.of(node->input(*other));
    }
    if (const auto constant = constant_dtype(node)) return of_told(node, *constant);
    if (const auto position = dtype_position(node)) {
      const Node* dtype = node->input(*position)->node();
      if (dtype->kind() == c10::prim::dtype) return origins_.of(dtype->input(0));
    }
    if (kind == "aten::linear" || kind.starts_with("aten::conv") || kind.starts_with("aten::_convolution")) {
      set_float(node);
      if (const DtypeOrigin weight = origins_.of(node->input(1)); weight.dtype) return weight;
    }
    return is_factory(node) ? DtypeOrigin{.dtype = ScalarType::Float} : of_operands(node);
  }

  DtypeOrigin of_held(const Node* node, const at::Tensor& held) {
    if (!held.is_floating_point() || held.dim() == 0) return {};
    set_float(node);
    return {.dtype = held.scalar_type()};
  }

  DtypeOrigin of_told(const Node* node, ScalarType dtype) {
    if (has_no_dimensions(model_, node->output(0)) || !c10::isFloatingType(dtype)) return {};
    set_float(node);
    return {.dtype = dtype};
  }

  DtypeOrigin of_module(const Node* node) {
    const ir::ModuleCall& call = ir::call_of(model_, node);
    const bool is_norm = call.type.name.find("Norm") != std::string_view::npos;
    if (is_norm || !call.module) return of_operands(node);
    for (const at::Tensor& parameter : call.module->parameters()) {
      if (!parameter.is_floating_point()) continue;
      if (node->outputs().size() == 1 && is_tensor(node->output())) set_float(node);
      return {.dtype = parameter.scalar_type()};
    }
    return of_operands(node);
  }

  const Model& model_;
  DtypeOrigins& origins_;
};

}  // namespace

DtypeOrigin DtypeOrigins::of(const Value* value) const {
  const auto found = known.find(value);
  return found == known.end() ? DtypeOrigin{} : found->second;
}

DtypeOrigins dtype_origins(const Model& model, const ir::Graph& graph) {
  DtypeOrigins origins;
  for (const Value* input : graph.inputs().slice(1)) {
    if (ir::holds_tensor(input)) origins.known[input] = {.input = input};
  }
  OriginSearch(model, origins).visit(graph.block());
  return origins;
}

}  // namespace tsq::passes
