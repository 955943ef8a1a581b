// A sum or product with a constant after a layer becomes part of the layer's weight and bias.
//   conv(x) + b             →   conv(x) of another bias
//   conv(x) * 0.2 + 0.5     →   conv(x) of another weight and bias
//   matmul(view(q(x)), k) / 8   →   matmul(view(q(x)), k), q of another weight and bias
// Exporters write biases and gates so. As operators of their own, each rounds once more.

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "operators/arguments.h"
#include "operators/constant_expressions.h"
#include "operators/traits.h"
#include "operators/weighted.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {
namespace {

bool is_sum(const Node* node) { return node->kind() == c10::aten::add || node->kind() == c10::aten::sub; }
bool is_product(const Node* node) { return node->kind() == c10::aten::mul || node->kind() == c10::aten::div; }

class ArithmeticFolding {
 public:
  explicit ArithmeticFolding(Model& model) : model_(model), constants_(model) {
    std::unordered_set<const void*> seen;
    for (const ir::ModuleCall& call : model.calls) {
      if (!call.weighted) continue;
      const void* weight = call.weighted->weight.const_data_ptr();
      if (!seen.insert(weight).second) shared_.insert(weight);
    }
  }

  bool run() {
    bool changed = false;
    std::vector<Node*> layers = ir::nodes_in_order(*model_.graph);
    std::erase_if(layers, [&](const Node* node) { return !is_layer(node); });
    for (Node* layer : layers) {
      while (Node* reader = folded_reader(layer)) {
        reader->output()->replaceAllUsesWith(layer->output());
        reader->destroy();
        changed = true;
      }
      changed |= fold_factor(layer);
    }
    return ir::eliminate_dead_code(*model_.graph) || changed;
  }

 private:
  /// A layer with nothing fused into it, whose parameters no other call reads.
  [[nodiscard]] bool is_layer(const Node* node) const {
    if (!ir::is_module_call(node) || ir::is_opaque(model_, node)) return false;
    const ir::ModuleCall& call = ir::call_of(model_, node);
    const bool has_rows =
        !operators::is_transposed(call.type) || (call.weighted && call.weighted->groups == 1);
    return call.weighted && call.members.empty() && operators::is_weighted(call.type) && has_rows &&
           call.weighted->weight.is_floating_point() &&
           !shared_.contains(call.weighted->weight.const_data_ptr());
  }

  /// The only reader of a layer, when the layer has taken it in; null otherwise.
  Node* folded_reader(Node* layer) {
    Node* reader = ir::only_reader(layer);
    if (reader == nullptr || reader->owningBlock() != layer->owningBlock()) return nullptr;
    ir::ModuleCall& call = ir::call_of(model_, layer);
    if (const auto addend = summand(layer, reader)) {
      add(*call.weighted, *addend);
    } else if (const auto number = factor(layer, reader, layer->output())) {
      multiply(call, *number);
    } else {
      return nullptr;
    }
    call.module.reset();
    if (adds_batch(layer, other_operand(reader, layer->output()))) give_batch(layer);
    return reader;
  }

  /// Takes in the number by which alone values are multiplied that are made of the layer's, where there is
  /// one.
  bool fold_factor(Node* layer) {
    Value* value = layer->output();
    Node* reader = ir::only_reader(layer);
    while (reader != nullptr && passes_factors(reader, value)) {
      value = reader->output();
      reader = ir::only_reader(reader);
    }
    if (reader == nullptr || reader->owningBlock() != layer->owningBlock() || ir::stays_float(model_, reader))
      return false;
    const auto number = factor(layer, reader, value);
    if (!number || !is_number(other_operand(reader, value))) return false;
    ir::ModuleCall& call = ir::call_of(model_, layer);
    multiply(call, *number);
    call.module.reset();
    reader->output()->replaceAllUsesWith(value);
    reader->destroy();
    return true;
  }

  /// Whether a factor of one of its operands is a factor of what an operator returns.
  bool passes_factors(const Node* node, const Value* value) const {
    if (is_product(node) || ir::stays_float(model_, node) || node->outputs().size() != 1) return false;
    const auto* const row = operators::traits_of(node);
    const bool moves = operators::moves_values(row) && node->input(0) == value;
    return (moves || operators::has(row, operators::PassesFactors)) &&
           node->output()->type()->isSubtypeOf(*c10::TensorType::get());
  }

  static const Value* other_operand(const Node* node, const Value* value) {
    return node->input(node->input(0) == value ? 1 : 0);
  }

  bool is_number(const Value* value) const {
    const auto constant = constants_.value_of(value);
    return constant && (constant->isScalar() || (constant->isTensor() && constant->toTensor().dim() == 0));
  }

  /// What a sum with a constant adds to each channel of a layer; empty for other nodes.
  std::optional<at::Tensor> summand(const Node* layer, const Node* sum) const {
    const bool has_unit_alpha = is_sum(sum) && ir::number_constant(sum->input(2)) == 1;
    const bool subtracts = sum->kind() == c10::aten::sub;
    if (!has_unit_alpha || (subtracts && sum->input(0) != layer->output())) return std::nullopt;
    auto operand = by_channel(layer, other_operand(sum, layer->output()));
    return operand && subtracts ? std::optional(-*operand) : operand;
  }

  /// What a product of `value` with a constant multiplies each channel of a layer by; empty for other nodes.
  std::optional<at::Tensor> factor(const Node* layer, const Node* product, const Value* value) const {
    if (!is_product(product)) return std::nullopt;
    const bool divides = product->kind() == c10::aten::div;
    const bool rounds = product->inputs().size() > 2;
    if (divides && (product->input(0) != value || rounds)) return std::nullopt;
    auto operand = by_channel(layer, other_operand(product, value));
    if (!operand || !divides) return operand;
    if (at::any(*operand == 0).item<bool>()) return std::nullopt;
    return operand->reciprocal();
  }

  /// A constant as one number for each channel of a layer's output, in double precision.
  [[nodiscard]] std::optional<at::Tensor> by_channel(const Node* layer, const Value* value) const {
    const auto constant = constants_.value_of(value);
    if (!constant || (!constant->isScalar() && !constant->isTensor())) return std::nullopt;
    const ir::ModuleCall& call = ir::call_of(model_, layer);
    if (constant->isScalar() && constant->toScalar().isComplex()) return std::nullopt;
    at::Tensor tensor = constant->isTensor() ? constant->toTensor().detach()
                                             : at::scalar_tensor(constant->toScalar(), at::kDouble);
    if (!tensor.defined() || tensor.is_complex() || !broadcasts(call, tensor)) return std::nullopt;
    tensor = tensor.to(at::kDouble).flatten();
    if (!at::isfinite(tensor).all().item<bool>()) return std::nullopt;
    return tensor.expand({channels_of(call)});
  }

  static int64_t channels_of(const ir::ModuleCall& layer) {
    return layer.weighted->weight.size(operators::is_transposed(layer.type) ? 1 : 0);
  }

  /// Whether a tensor has one value, or one for each channel, and changes neither dimensions, but for a batch
  /// of one image, nor dtype of the layer's output.
  static bool broadcasts(const ir::ModuleCall& layer, const at::Tensor& tensor) {
    if (tensor.dim() == 0) return true;
    const auto dtype = layer.weighted->weight.scalar_type();
    if (c10::promoteTypes(dtype, tensor.scalar_type()) != dtype) return false;
    const auto spatial = static_cast<int64_t>(layer.weighted->stride.size());
    if (tensor.dim() > (spatial == 0 ? 1 : spatial + 2)) return false;
    const int64_t channels = channels_of(layer);
    if (tensor.numel() == 1) return true;
    const int64_t axis = tensor.dim() - spatial - 1;
    return axis >= 0 && tensor.numel() == channels && tensor.size(axis) == channels;
  }

  /// Whether arithmetic with a constant makes a batch of the one image that a convolution takes as well.
  [[nodiscard]] bool adds_batch(const Node* layer, const Value* operand) {
    const auto constant = constants_.value_of(operand);
    const auto spatial = static_cast<int64_t>(ir::call_of(model_, layer).weighted->stride.size());
    const bool has_all_dimensions =
        spatial > 0 && constant && constant->isTensor() && constant->toTensor().dim() == spatial + 2;
    return has_all_dimensions && !has_batch(layer);
  }

  /// conv(x)   →   conv(x.reshape([-1, channels, height, width]))
  void give_batch(Node* layer) {
    const ir::ModuleCall& call = ir::call_of(model_, layer);
    const auto spatial = static_cast<int64_t>(call.weighted->stride.size());
    const int64_t channels = call.weighted->weight.size(operators::is_transposed(call.type) ? 0 : 1);
    const auto number = [&](int64_t value) { return ir::constant_before(layer, value); };
    std::vector<Value*> sizes{
        number(-1), number(channels * (operators::is_transposed(call.type) ? 1 : call.weighted->groups))};
    for (int64_t i = -spatial; i < 0; ++i)
      sizes.push_back(
          ir::insert_before(layer, "aten::size", {layer->input(0), number(i)}, c10::IntType::get()));
    Value* list = ir::list_before(layer, c10::IntType::get(), sizes);
    Value* batch = ir::insert_before(layer, "aten::reshape", {layer->input(0), list});
    ir::take_scope(batch->node(), layer);
    layer->replaceInput(0, batch);
    batched_.clear();
  }

  /// Whether an image layer's input is known to have a batch dimension; convolutions take images without.
  [[nodiscard]] bool has_batch(const Node* layer) {
    const auto operands = ir::operands(layer);
    return !operands.empty() && is_batch(operands.front());
  }

  bool is_batch(const Value* value) {
    const auto [found, is_new] = batched_.emplace(value, false);
    if (!is_new) return found->second;
    return batched_[value] = gives_batch(value->node());
  }

  bool gives_batch(const Node* node) {
    if (node->kind() == c10::aten::mean) {
      const auto dims = operators::argument_constant(model_, node, "dim");
      return dims && dims->isIntList() && std::ranges::count(dims->toIntVector(), 3) == 1;
    }
    if (node->kind() == c10::aten::reshape) {
      const Node* sizes = node->input(1)->node();
      constexpr std::size_t kLeast = 3;
      return sizes->kind() == c10::prim::ListConstruct && sizes->inputs().size() >= kLeast;
    }
    if (ir::is_batch_norm(model_, node)) return !ir::call_of(model_, node).has_unknown_rank;
    const auto operands = ir::operands(node);
    if (is_sum(node) || is_product(node))
      return std::ranges::any_of(operands,
                                 [&](const Value* each) { return ir::holds_tensor(each) && is_batch(each); });
    const bool is_convolution = ir::is_module_call(node) && ir::call_of(model_, node).weighted &&
                                !ir::call_of(model_, node).weighted->stride.empty();
    const bool keeps_rank = is_convolution || operators::keeps_rank(operators::traits_of(model_, node));
    return keeps_rank && !operands.empty() && is_batch(operands.front());
  }

  static void add(ir::Weighted& weighted, const at::Tensor& operand) {
    const at::Tensor bias =
        weighted.bias.defined() ? weighted.bias.detach().to(at::kDouble) : at::zeros_like(operand);
    weighted.bias = (bias + operand).to(weighted.weight.scalar_type());
  }

  static void multiply(ir::ModuleCall& layer, const at::Tensor& operand) {
    ir::Weighted& weighted = *layer.weighted;
    const auto dtype = weighted.weight.scalar_type();
    std::vector<int64_t> sizes(static_cast<std::size_t>(weighted.weight.dim()), 1);
    sizes[operators::is_transposed(layer.type) ? 1 : 0] = operand.numel();
    weighted.weight = (weighted.weight.detach().to(at::kDouble) * operand.reshape(sizes)).to(dtype);
    if (weighted.bias.defined()) weighted.bias = (weighted.bias.detach().to(at::kDouble) * operand).to(dtype);
  }

  Model& model_;
  operators::ConstantExpressions constants_;
  std::unordered_set<const void*> shared_{};          ///< weights of several calls
  std::unordered_map<const Value*, bool> batched_{};  ///< whether a value is known to have a batch dimension
};

}  // namespace

bool fold_arithmetic(Model& model, const PassContext& /*context*/) {
  const c10::NoGradGuard no_grad;
  return ArithmeticFolding(model).run();
}

}  // namespace tsq::passes
