#include "operators/known_dtypes.h"

#include <algorithm>
#include <ranges>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/quantize_operators.h"
#include "ir/value_numbers.h"
#include "observers/observer_module.h"
#include "operators/arguments.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace {

using ir::Block;
using ir::Node;
using ir::Value;
using Dtype = std::optional<c10::ScalarType>;

/// Operators that take floating-point tensors alone; their first operand and their result are of one dtype.
bool takes_floats(const ir::Model& model, const Node* node) {
  return is_one_of(model, node,
                   {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
                    "linear", "layer_norm", "group_norm", "batch_norm", "instance_norm", "gelu", "softmax",
                    "log_softmax", "avg_pool2d", "scaled_dot_product_attention", "silu", "hardswish", "elu"});
}

bool makes_truths(const ir::Model& model, const Node* node) {
  return is_one_of(model, node,
                   {"eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or",
                    "logical_xor", "isnan", "isinf", "isfinite"});
}

/// The parameters of a called layer, or the table that it looks up.
at::Tensor parameter_of(const ir::Model& model, const Node* node) {
  if (!ir::is_module_call(node)) return {};
  const ir::ModuleCall& call = ir::call_of(model, node);
  if (call.embedding) return call.embedding->weight;
  const ir::Weighted* weighted = ir::weighted_of(call);
  return weighted == nullptr ? at::Tensor() : weighted->weight;
}

/// A recurrent layer whose weights are rounded.
bool is_rounded_recurrent(const ir::Model& model, const Node* node) {
  return ir::is_module_call(node) && !ir::call_of(model, node).recurrent_qparams.empty();
}

/// Whether an operator that is told no dtype makes a tensor of the default one.
bool has_default_dtype(const Node* node) {
  if (node->kind() == c10::aten::zeros || node->kind() == c10::aten::ones) return true;
  const Value* number = argument_named(node, "fill_value");
  return node->kind() == c10::aten::full && number != nullptr &&
         number->type()->kind() == c10::TypeKind::FloatType;
}

/// Whether the result has the dtype of the first operand, whatever that is.
bool hands_on_dtype(const ir::Model& model, const Node* node, const OperatorTraits* row) {
  if (node->kind() == c10::aten::embedding) return true;  // its table comes first
  if (row == nullptr) return is_one_of(model, node, {"zeros_like", "ones_like", "full_like", "bitwise_not"});
  const bool hands_on = moves_values(row) || row->values == Values::Chosen || row->values == Values::Filled;
  return hands_on && row->has(KeepsDtype);
}

/// Whether the dtype of the result is that of all operands that are tensors, the widest where they differ.
bool joins_dtypes(const ir::Model& model, const Node* node, const OperatorTraits* row) {
  if (row != nullptr) return row->has(ElementwiseOfTwo) || row->values == Values::Joined;
  return is_one_of(model, node, {"outer", "ger", "bitwise_and", "bitwise_or", "bitwise_xor"});
}

/// Whether a reader runs in each run that makes the value. In a branch, the model may have asked for the
/// dtype before.
bool is_read_whenever_made(const Value* value, const Node* reader) {
  return reader->owningBlock() == value->node()->owningBlock();
}

/// Whether an observer stands for a rounding of a value, which takes float32 alone.
bool becomes_rounded(const ir::Model& model, const Value* value) {
  return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
    if (!ir::is_observer(use.user) || !is_read_whenever_made(value, use.user)) return false;
    const ObserverSpec& spec = ir::observer_of(model, use.user).spec;
    return finds_qparams(spec) && !resolve(spec).is_dynamic;
  });
}

/// What is quantized here arrives as float numbers while observers look on.
bool is_dequantized(const Value* value) {
  return std::ranges::any_of(value->uses(),
                             [](const torch::jit::Use& use) { return use.user->kind() == ir::kDequantize; });
}

class DtypeFlow {
 public:
  DtypeFlow(const ir::Model& model, Grounds grounds) : model_(model), grounds_(grounds) {
    if (is_certain()) written_ = ir::written_attributes(model);
  }

  KnownDtypes run() {
    find_requirements();
    for (const Value* input : std::as_const(*model_.graph).inputs()) settle(input);
    visit(model_.graph->block());
    return std::move(known_);
  }

 private:
  [[nodiscard]] bool is_certain() const { return grounds_ == Grounds::Certain; }

  // From readers to what they read.

  void require(const Node* reader, const Value* value, c10::ScalarType dtype) {
    if (!ir::holds_tensor(value) || (is_certain() && !is_read_whenever_made(value, reader))) return;
    required_.emplace(value->unique(), dtype);
  }

  void find_requirements() {
    const std::vector<Node*> nodes = ir::nodes_in_order(*model_.graph);
    for (const Node* node : nodes | std::views::reverse) require_operands(node);
  }

  void require_operands(const Node* node) {
    const auto operands = ir::operands(node);
    if (operands.empty() || !ir::holds_tensor(operands.front())) return;
    if (const ir::Weighted* layer = layer_of(node)) {
      require(node, operands.front(), dtype_of_layer(layer->weight));
    } else if (node->kind() == ir::kQuantize || (!is_certain() && takes_floats(model_, node))) {
      require(node, operands.front(), c10::ScalarType::Float);
    } else if (is_rounded_recurrent(model_, node)) {
      for (const Value* operand : operands) require(node, operand, c10::ScalarType::Float);
    } else if (is_one_of(model_, node, {"masked_fill"})) {
      if (operands.size() > 1) require(node, operands[1], c10::ScalarType::Bool);
    } else if (is_one_of(model_, node, {"where"})) {
      require(node, operands.front(), c10::ScalarType::Bool);
    } else if (node->outputs().size() == 1 && moves_values(traits_of(model_, node))) {
      if (const Dtype required = known_dtype(required_, node->output()))
        require(node, operands.front(), *required);
    }
  }

  [[nodiscard]] const ir::Weighted* layer_of(const Node* node) const {
    return ir::is_module_call(node) ? ir::weighted_of(ir::call_of(model_, node)) : nullptr;
  }

  // From what makes values to the values.

  void visit(const Block* block) {
    for (const Node* node : block->nodes()) visit(node);
  }

  void visit(const Node* node) {
    for (const Block* block : node->blocks()) {
      for (const Value* input : block->inputs()) settle(input);
      visit(block);
    }
    for (const Value* output : node->outputs()) settle(output);
  }

  void settle(const Value* value) {
    if (!ir::holds_tensor(value) || is_dequantized(value)) return;
    if (const Dtype dtype = found_for(value)) known_.emplace(value->unique(), *dtype);
  }

  [[nodiscard]] Dtype found_for(const Value* value) const {
    if (const Dtype told = told_by_graph(value)) return told;
    const ir::ValueFacts* facts = ir::facts_of(model_, value);
    if (facts != nullptr && !facts->dtypes.empty() && counts(*facts, value)) return ir::only_dtype(*facts);
    if (const Dtype made = made_by(value->node(), value->offset())) return made;
    return known_dtype(required_, value);
  }

  /// Whether what calibration saw of a value holds in every run, or is reason enough.
  [[nodiscard]] bool counts(const ir::ValueFacts& facts, const Value* value) const {
    return grounds_ == Grounds::Calibration ||
           (ir::only_dtype(facts) == c10::ScalarType::Float && becomes_rounded(model_, value));
  }

  /// By its type, or by the tensor that it is. An attribute that the model writes may become another tensor,
  /// which is likely to be of the same dtype.
  [[nodiscard]] Dtype told_by_graph(const Value* value) const {
    if (const auto type = value->type()->cast<c10::TensorType>(); type && type->scalarType())
      return type->scalarType();
    const std::string* attribute = ir::attribute_read(model_, value);
    if (attribute != nullptr && written_.contains(*attribute)) return std::nullopt;
    const at::Tensor held = ir::held_tensor(model_, value);
    return held.defined() ? Dtype(held.scalar_type()) : std::nullopt;
  }

  [[nodiscard]] Dtype made_by(const Node* node, std::size_t output) const {
    if (node->kind() == c10::prim::If) return common_of_branches(node, output);
    if (node->kind() == c10::prim::Loop) return kept_by_loop(node, output);
    if (node->kind() == c10::prim::ListConstruct)
      return ir::is_container_construct(node) ? common_of({node->inputs().begin(), node->inputs().end()})
                                              : std::nullopt;
    if (node->kind() == c10::prim::Param || node->inputs().empty()) return std::nullopt;
    const bool is_element = node->kind() == c10::prim::ListUnpack || node->kind() == c10::aten::__getitem__;
    if (ir::is_observer(node) || is_element) return known_dtype(known_, node->input(0));
    if (node->outputs().size() != 1) return std::nullopt;
    if (node->kind() == ir::kDequantize) return c10::ScalarType::Float;
    if (const at::Tensor parameter = parameter_of(model_, node); parameter.defined())
      return dtype_of_layer(parameter);
    return asked_for(node);
  }

  /// A layer returns what its parameters are; where they are rounded, float32.
  [[nodiscard]] static c10::ScalarType dtype_of_layer(const at::Tensor& parameter) {
    return parameter.is_floating_point() ? parameter.scalar_type() : c10::ScalarType::Float;
  }

  /// The dtype that an operator is told, by number or by another tensor.
  [[nodiscard]] Dtype asked_for(const Node* node) const {
    const Value* dtype = argument_named(node, "dtype");
    if (dtype != nullptr && !dtype->mustBeNone()) return dtype_that(dtype);
    if (is_one_of(model_, node, {"to", "type_as"})) {
      const Value* other = argument_named(node, "other");
      return known_dtype(known_, other == nullptr ? node->input(0) : other);
    }
    if (has_default_dtype(node)) return c10::ScalarType::Float;
    if (makes_truths(model_, node)) return c10::ScalarType::Bool;
    return of_operands(node);
  }

  [[nodiscard]] Dtype dtype_that(const Value* number) const {
    if (const auto known = ir::dtype_constant(number)) return known;
    return number->node()->kind() == c10::prim::dtype ? known_dtype(known_, number->node()->input(0))
                                                      : std::nullopt;
  }

  [[nodiscard]] Dtype of_operands(const Node* node) const {
    const OperatorTraits* row = traits_of(model_, node);
    if (joins_dtypes(model_, node, row)) return joined(node);
    const auto operands = ir::operands(node);
    if (operands.empty()) return std::nullopt;
    const Dtype first = known_dtype(known_, operands.front());
    if (hands_on_dtype(model_, node, row)) return first;
    const bool takes_floats_alone = takes_floats(model_, node);
    // Of whole numbers, the exponential and its like make floats.
    const bool keeps_floats = takes_floats_alone || has(row, KeepsDtype);
    if (keeps_floats && first && c10::isFloatingType(*first)) return first;
    return takes_floats_alone && !is_certain() && !first ? Dtype(c10::ScalarType::Float) : std::nullopt;
  }

  /// Of several operands.
  [[nodiscard]] Dtype joined(const Node* node) const {
    auto tensors = ir::operands(node);
    std::erase_if(tensors, [](const Value* value) { return !ir::holds_tensor(value); });
    if (tensors.empty()) return std::nullopt;
    Dtype result = known_dtype(known_, tensors.front());
    for (const Value* tensor : tensors | std::views::drop(1)) {
      if (!result) return std::nullopt;
      const Dtype other = known_dtype(known_, tensor);
      result = other ? wider(*result, *other) : likely_wider(node, *result);
    }
    // Whole numbers may become floats: divided, or beside a number with a point.
    const bool is_arithmetic = has(traits_of(model_, node), ElementwiseOfTwo);
    return is_arithmetic && result && !c10::isFloatingType(*result) ? std::nullopt : result;
  }

  [[nodiscard]] static Dtype wider(c10::ScalarType first, c10::ScalarType other) {
    if (first == other) return first;
    if (c10::isComplexType(first) || c10::isComplexType(other)) return std::nullopt;
    // Of two kinds of floats, or of whole numbers, it depends on which of the tensors is a single number.
    const bool is_float = c10::isFloatingType(first);
    if (is_float == c10::isFloatingType(other)) return std::nullopt;
    return is_float ? first : other;
  }

  /// An operand of which nothing is known is likely to be no wider than floats, or than bits of truth values.
  [[nodiscard]] Dtype likely_wider(const Node* node, c10::ScalarType first) const {
    const bool keeps = c10::isFloatingType(first) || (first == c10::ScalarType::Bool &&
                                                      is_one_of(model_, node, {"bitwise_and", "bitwise_or"}));
    return !is_certain() && keeps ? Dtype(first) : std::nullopt;
  }

  /// The dtype that several values have alike; those that are none do not count.
  [[nodiscard]] Dtype common_of(const std::vector<const Value*>& values) const {
    Dtype common;
    for (const Value* value : values) {
      if (ir::is_no_value(value)) continue;
      const Dtype dtype = known_dtype(known_, value);
      if (!dtype || common.value_or(*dtype) != *dtype) return std::nullopt;
      common = dtype;
    }
    return common;
  }

  [[nodiscard]] Dtype common_of_branches(const Node* branches, std::size_t output) const {
    std::vector<const Value*> returned;
    for (const Block* branch : branches->blocks()) returned.push_back(branch->outputs()[output]);
    return common_of(returned);
  }

  /// A loop returns what it begins with where its body never runs.
  [[nodiscard]] Dtype kept_by_loop(const Node* loop, std::size_t output) const {
    constexpr std::size_t kFirstCarried = 2;  // after the number of runs and the first condition
    constexpr std::size_t kFirstReturned = 1;
    const Dtype before = known_dtype(known_, loop->input(output + kFirstCarried));
    const Dtype after = known_dtype(known_, loop->blocks().front()->outputs()[output + kFirstReturned]);
    return before == after ? before : std::nullopt;
  }

  const ir::Model& model_;
  Grounds grounds_;
  std::unordered_set<std::string> written_{};  ///< attributes that may become other tensors
  KnownDtypes required_{};                     ///< what the readers of values take
  KnownDtypes known_{};
};

}  // namespace

KnownDtypes known_dtypes(const ir::Model& model, Grounds grounds) { return DtypeFlow(model, grounds).run(); }

std::optional<c10::ScalarType> known_dtype(const KnownDtypes& known, const ir::Value* value) {
  const auto found = known.find(value->unique());
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace tsq::operators
