// What stays float computes in bfloat16: casts around matrix products, convolutions and linear layers, which
// then sink through operators that keep the dtype.
//   y = linear(x); z = linear(gelu(y))   →   y = linear(bfloat16(x)); z = float(linear(gelu(y)))

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_set>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/arguments.h"
#include "operators/traits.h"
#include "passes/lower/weight_packing.h"
#include "passes/tune/passes.h"

namespace tsq::passes {
namespace {

using c10::ScalarType;
using ir::ModuleCall;

/// Operators that are worth a cast: all their tensors have one dtype.
constexpr std::array<std::string_view, 7> kHeavy{"aten::matmul",
                                                 "aten::bmm",
                                                 "aten::mm",
                                                 "aten::addmm",
                                                 "aten::linear",
                                                 "aten::conv2d",
                                                 "aten::scaled_dot_product_attention"};

constexpr std::size_t kFactors = 3;

/// Operators of two tensors that have the wider dtype.
constexpr std::array<std::string_view, 4> kBinary{"aten::add", "aten::sub", "aten::mul", "aten::div"};

/// Whether an operator returns bfloat16 for bfloat16, and is not so steep that its rounding shows.
bool takes_bfloat16(const operators::OperatorTraits* row) {
  return operators::has(row, operators::KeepsDtype) && !row->steep_in;
}

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Operators of quantized tensors or weights with a float result.
bool gives_float(std::string_view kind) {
  return kind == "aten::dequantize" ||
         (kind.starts_with("quantized::linear") && kind.find("dynamic") != kind.npos);
}

std::string_view kind_of(const Node* node) { return node->kind().toQualString(); }

bool is_tensor(const Value* value) { return value->type()->kind() == c10::TypeKind::TensorType; }

bool is_number(const Value* value) {
  return !ir::holds_tensor(value) && value->type()->kind() != c10::TypeKind::NoneType;
}

/// The float layer that a call begins with: its own, or a fused module's first; null where it is quantized.
ir::Weighted* float_layer(ModuleCall& call) {
  ir::Weighted* weighted = ir::weighted_of(call);
  const bool is_float =
      weighted != nullptr && !weighted->weight_qparams && weighted->weight.scalar_type() == at::kFloat;
  return is_float ? weighted : nullptr;
}

/// A linear layer of 8-bit or 4-bit weights, which takes both dtypes.
bool is_small_linear(const ModuleCall& call) {
  if (!call.module || call.weighted) return false;
  const auto name = call.module->type()->name();
  return name && name->qualifiedName().find("tsq.Int") != std::string::npos;
}

bool has_in_place_operator(torch::jit::Graph& graph) {
  return std::ranges::any_of(ir::nodes_in_order(graph), [](const Node* node) {
    return node->kind().is_aten() && node->maybeSchema() != nullptr && node->schema().is_mutable();
  });
}

void add_makers(const Node* node, std::unordered_set<const Node*>& makers) {
  if (node->kind() == c10::prim::GetAttr) return;
  for (const Value* input : node->inputs()) {
    if (makers.insert(input->node()).second) add_makers(input->node(), makers);
  }
}

/// What packed weights are computed from that depend on parameters alone. fold_packed_weights computes them
/// once, in float.
std::unordered_set<const Node*> makers_of_packed(torch::jit::Graph& graph) {
  std::unordered_set<const Node*> all;
  for (const Node* node : ir::nodes_in_order(graph)) {
    if (!is_packing(node)) continue;
    std::unordered_set<const Node*> makers;
    add_makers(node, makers);
    const bool reads_input =
        std::ranges::any_of(makers, [](const Node* maker) { return maker->kind() == c10::prim::Param; });
    if (!reads_input) all.merge(makers);
  }
  return all;
}

class Casting {
 public:
  explicit Casting(Model& model)
      : model_(model),
        written_(ir::written_attributes(model)),
        packed_(makers_of_packed(*model.graph)),
        sinks_(!has_in_place_operator(*model.graph)) {}

  bool run() {
    for (Node* node : ir::nodes_in_order(*model_.graph)) {
      if (packed_.contains(node)) continue;
      if (ir::is_module_call(node)) {
        visit_call(node);
      } else if (is_one_of(kHeavy, kind_of(node))) {
        if (is_float_product(node)) run_in_bfloat16(node);
      } else if (sinks_ && operators::has(operators::traits_of(node), operators::ReadsShapeOnly)) {
        if (is_cast(node->input(0))) node->replaceInput(0, source_of(node->input(0)));
      } else if (sinks_ && keeps_dtype(node)) {
        if (is_cast(first_tensor(node))) sink(node, {first_tensor(node)});
      } else if (sinks_ && is_one_of(kBinary, kind_of(node))) {
        visit_binary(node);
      }
    }
    ir::eliminate_dead_code(*model_.graph);
    return !casts_.empty();
  }

 private:
  // What is known of dtypes.

  bool is_float(const Value* value) const {
    const Node* node = value->node();
    if (is_cast(value) || gives_float(kind_of(node))) return true;
    if (ir::is_module_call(node)) return call_is_float(node);
    if (node->kind() == c10::prim::GetAttr) return held_is_float(node);
    if (const auto constant = torch::jit::toIValue(value))
      return constant->isTensor() && constant->toTensor().scalar_type() == at::kFloat;
    if (keeps_dtype(node)) return is_float(first_tensor(node));
    if (is_one_of(kBinary, kind_of(node)))
      return is_float(node->input(0)) && (is_number(node->input(1)) || is_float(node->input(1)));
    return is_one_of(kHeavy, kind_of(node)) && is_float_product(node);
  }

  bool call_is_float(const Node* node) const {
    ModuleCall& call = ir::call_of(model_, node);
    if (float_layer(call) != nullptr) return true;
    if (call.embedding) return call.embedding->weight.scalar_type() == at::kFloat;
    return (is_small_linear(call) || takes_bfloat16(operators::traits_of(model_, node))) &&
           is_float(node->input(0));
  }

  bool held_is_float(const Node* node) const {
    if (node->input(0) != model_.graph->inputs().at(0)) return false;
    const std::string& name = node->s(c10::attr::name);
    if (!model_.attributes.hasattr(name)) return false;
    const c10::IValue held = model_.attributes.attr(name);
    return held.isTensor() && held.toTensor().scalar_type() == at::kFloat;
  }

  /// The first three tensors of a product have one dtype: one that is known tells all. A fourth is an
  /// attention mask, which may be boolean.
  bool is_float_product(const Node* node) const {
    for (std::size_t i = 0; i < std::min(kFactors, node->inputs().size()); ++i) {
      if (i >= 2 && !ir::holds_tensor(node->input(i))) continue;
      if (!is_tensor(node->input(i))) return false;
    }
    const bool has_mask =
        kind_of(node) == "aten::scaled_dot_product_attention" && !node->input(3)->mustBeNone();
    return (is_float(node->input(0)) || is_float(node->input(1))) && (!has_mask || is_float(node->input(3)));
  }

  bool keeps_dtype(const Node* node) const {
    if (node->outputs().size() != 1 || !is_tensor(node->output())) return false;
    const Value* first = first_tensor(node);
    if (first == nullptr || !is_tensor(first) || !takes_bfloat16(operators::traits_of(node))) return false;
    const Value* dtype = operators::argument_named(node, "dtype");  // softmax may be told one
    return dtype == nullptr || dtype->mustBeNone();
  }

  static Value* first_tensor(const Node* node) {
    const std::size_t first = node->kind() == c10::prim::CallFunction ? 1 : 0;
    return node->inputs().size() > first ? const_cast<Value*>(node->input(first)) : nullptr;
  }

  // Rewrites.

  void visit_call(Node* node) {
    ModuleCall& call = ir::call_of(model_, node);
    if (ir::Weighted* layer = float_layer(call)) {
      if (node->inputs().size() != 1) return;
      layer->weight = in_bfloat16(layer->weight);
      layer->bias = in_bfloat16(layer->bias);
      run_in_bfloat16(node);
    } else if (sinks_ && (is_small_linear(call) || takes_bfloat16(operators::traits_of(model_, node))) &&
               node->inputs().size() == 1 && is_cast(node->input(0))) {
      sink(node, {node->input(0)});
    }
  }

  void visit_binary(Node* node) {
    Value* left = node->input(0);
    Value* right = node->input(1);
    if (is_cast(left) && is_cast(right)) return sink(node, {left, right});
    if (is_cast(left) && is_number(right)) sink(node, {left});
  }

  /// The tensor once, however many calls share it.
  at::Tensor in_bfloat16(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    const auto [found, is_new] = tensors_.try_emplace(tensor.unsafeGetTensorImpl(), tensor, at::Tensor());
    if (is_new) found->second.second = tensor.detach().to(at::kBFloat16);
    return found->second.second;
  }

  void run_in_bfloat16(Node* node) {
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      Value* input = node->input(i);
      if (is_tensor(input) && (i < kFactors || is_float(input)))
        node->replaceInput(i, bfloat16_of(input, node));
    }
    cast_output(node);
  }

  /// Runs on what the casts read; the cast comes after it.
  void sink(Node* node, std::initializer_list<Value*> casts) {
    for (Value* cast : casts) ir::replace_operand(node, cast, source_of(cast));
    cast_output(node);
  }

  bool is_cast(const Value* value) const { return casts_.contains(value); }
  static Value* source_of(const Value* cast) { return const_cast<Value*>(cast)->node()->input(0); }

  void cast_output(Node* node) {
    node->output()->setType(c10::TensorType::get());
    Value* made = cast(node->output(), ScalarType::Float, node->next(), node);
    node->output()->replaceAllUsesAfterNodeWith(made->node(), made);
    casts_.insert(made);
  }

  Value* bfloat16_of(Value* value, Node* user) {
    if (is_cast(value)) return source_of(value);
    if (value->node()->kind() == c10::prim::GetAttr && held_is_float(value->node()))
      return held_in_bfloat16(value, user);
    Value*& made = lowered_[{value, user->owningBlock()}];
    if (made == nullptr) made = cast(value, ScalarType::BFloat16, user, user);
    return made;
  }

  /// A parameter is cast now; state that the model writes, when it runs.
  Value* held_in_bfloat16(Value* value, Node* user) {
    const std::string name = value->node()->s(c10::attr::name);
    if (written_.contains(name) || model_.state.contains(name))
      return cast(value, ScalarType::BFloat16, user, user);
    const torch::jit::WithInsertPoint guard(user);
    return ir::insert_attribute(model_, name + "_bfloat16",
                                in_bfloat16(model_.attributes.attr(name).toTensor()), c10::TensorType::get());
  }

  Value* cast(Value* value, ScalarType dtype, Node* before, const Node* scope) {
    const ir::Rewriter in_front(model_, before, scope);
    Value* no = in_front.constant(false);
    return in_front.op("aten::to", {value, in_front.constant(static_cast<int64_t>(dtype)), no, no,
                                    /*memory_format*/ in_front.constant(c10::IValue())});
  }

  Model& model_;
  std::unordered_set<std::string> written_;
  std::unordered_set<const Node*> packed_;
  bool sinks_;  ///< what is written in place must stay the memory that views of it see
  std::unordered_set<const Value*> casts_;  ///< float values of what is there in bfloat16
  std::map<std::pair<const Value*, const torch::jit::Block*>, Value*> lowered_;
  std::map<const void*, std::pair<at::Tensor, at::Tensor>> tensors_;
};

}  // namespace

bool float_in_bfloat16(Model& model, const PassContext& /*context*/) { return Casting(model).run(); }

}  // namespace tsq::passes
