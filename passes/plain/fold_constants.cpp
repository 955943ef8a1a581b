// Weights that a model computes from its parameters in each run are computed now, so that their layers are
// layers.
//   conv(x, v * (g / norm(v)))     →   conv(x, w)
//   linear(x, split(w, [n, 2 n]))  →   linear(x, w'), n a size of x that w tells as well

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor_memory.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "operators/constant_expressions.h"
#include "operators/folded_constants.h"
#include "passes/context/nodes.h"
#include "passes/plain/passes.h"

namespace tsq::passes {
namespace {

/// A whole number as a multiple of another value.
struct Multiple {
  const Value* unit{};
  int64_t factor{1};
};

Multiple multiple_of(const Value* value) {
  const Node* node = value->node();
  if (node->kind() != c10::aten::mul || node->inputs().size() != 2) return {value, 1};
  for (const std::size_t other : {0U, 1U}) {
    const auto factor = ir::whole_number_constant(node->input(other));
    if (!factor) continue;
    const Multiple inner = multiple_of(node->input(1 - other));
    return {inner.unit, inner.factor * *factor};
  }
  return {value, 1};
}

bool is_split(const Node* node) {
  return (node->kind() == c10::aten::split_with_sizes || node->kind() == c10::aten::split) &&
         node->inputs().size() == 3;
}

/// The sizes into which a dimension is split, where all are multiples of one value: their sum tells it.
std::optional<std::vector<int64_t>> split_sizes(const Value* list, int64_t whole) {
  if (list->node()->kind() != c10::prim::ListConstruct || list->node()->inputs().empty()) return std::nullopt;
  std::vector<int64_t> sizes;
  const Value* unit = multiple_of(list->node()->input(0)).unit;
  int64_t sum = 0;
  for (const Value* element : list->node()->inputs()) {
    const Multiple size = multiple_of(element);
    if (size.unit != unit) return std::nullopt;
    sizes.push_back(size.factor);
    sum += size.factor;
  }
  if (sum <= 0 || whole % sum != 0) return std::nullopt;
  for (int64_t& size : sizes) size *= whole / sum;
  return sizes;
}

bool is_view(const Node* node) {
  const c10::FunctionSchema* schema = node->kind().is_aten() ? node->maybeSchema() : nullptr;
  return schema != nullptr && !schema->is_mutable() && schema->returns().size() == 1 &&
         schema->returns().front().alias_info() != nullptr && !node->isNondeterministic();
}

/// Whether two values are one, or the same view of one memory.
bool is_same_view(const Value* a, const Value* b) {
  if (a == b) return true;
  const Node* left = a->node();
  const Node* right = b->node();
  if (left->kind() != right->kind() || left->inputs().size() != right->inputs().size() ||
      left->outputs().size() != 1 || right->outputs().size() != 1)
    return false;
  if (left->kind() == c10::prim::Constant) return torch::jit::toIValue(a) == torch::jit::toIValue(b);
  return is_view(left) && std::ranges::equal(left->inputs(), right->inputs(), is_same_view);
}

class ConstantFolding {
 public:
  explicit ConstantFolding(Model& model) : model_(model), folded_(model) {}

  bool run() {
    bool changed = false;
    while (know_split_sizes() || know_same_values() || choose_branches() || fold_values()) changed = true;
    return eliminate_dead_code() || changed;
  }

 private:
  /// Branches, too, of which nobody reads any more what they return.
  bool eliminate_dead_code() {
    const bool changed = ir::eliminate_dead_code(*model_.graph);
    const std::size_t nodes = ir::nodes_in_order(*model_.graph).size();
    torch::jit::EliminateDeadCode(model_.graph->block());
    return changed || ir::nodes_in_order(*model_.graph).size() != nodes;
  }

  /// A tensor is split into all of itself.
  bool know_split_sizes() {
    const operators::ConstantExpressions constants(model_);
    return change_nodes(model_, [&](Node* node) {
      if (!is_split(node) || torch::jit::toIValue(node->input(1))) return false;
      const auto tensor = constants.value_of(node->input(0));
      const auto dim = ir::whole_number_constant(node->input(2));
      if (!tensor || !tensor->isTensor() || !dim) return false;
      const auto sizes = split_sizes(node->input(1), tensor->toTensor().size(*dim));
      if (sizes) node->replaceInput(1, ir::constant_before(node, *sizes));
      return sizes.has_value();
    });
  }

  /// `x is x`, also where x is what several branches return twice.
  bool know_same_values() {
    bool changed = false;
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (node->kind() == c10::prim::If) changed |= give_once(node);
      if (node->kind() != c10::aten::__is__ || node->input(0) != node->input(1) || !node->hasUses()) continue;
      node->output()->replaceAllUsesWith(ir::constant_before(node, true));
      changed = true;
    }
    return changed;
  }

  /// if c: x, x else: y, y   →   the first for both
  static bool give_once(Node* branches) {
    const auto are_same = [&](std::size_t a, std::size_t b) {
      return std::ranges::all_of(branches->blocks(), [&](torch::jit::Block* block) {
        return is_same_view(block->outputs()[a], block->outputs()[b]);
      });
    };
    bool changed = false;
    for (std::size_t i = 1; i < branches->outputs().size(); ++i) {
      for (std::size_t k = 0; k < i && branches->output(i)->hasUses(); ++k) {
        if (!are_same(k, i)) continue;
        branches->output(i)->replaceAllUsesWith(branches->output(k));
        changed = true;
      }
    }
    return changed;
  }

  bool choose_branches() {
    const operators::ConstantExpressions constants(model_);
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (node->kind() != c10::prim::If) continue;
      const auto condition = constants.value_of(node->input(0));
      if (!condition || !condition->isBool()) continue;
      ir::take_branch(node, condition->toBool());
      return true;
    }
    return false;
  }

  bool fold_values() {
    const operators::ConstantExpressions constants(model_);
    bool changed = false;
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (node->kind() == c10::prim::Constant || node->kind() == c10::prim::GetAttr) continue;
      for (Value* value : node->outputs())
        changed |= is_read_by_others(constants, value) && fold(constants, value);
    }
    if (changed) ir::eliminate_dead_code(*model_.graph);
    return changed;
  }

  /// Whether a reader depends on more than constants.
  static bool is_read_by_others(const operators::ConstantExpressions& constants, const Value* value) {
    return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
      return std::ranges::none_of(
          use.user->outputs(), [&](const Value* result) { return constants.value_of(result).has_value(); });
    });
  }

  bool fold(const operators::ConstantExpressions& constants, Value* value) {
    const auto found = constants.value_of(value);
    if (!found) return false;
    const std::vector<std::string> sources = constants.attributes_of(value);
    if (sources.empty()) return false;
    if (found->isTensor()) {
      if (!is_small(found->toTensor(), sources)) return false;
      folded_.replace(value, sources, found->toTensor());
      return true;
    }
    if (!found->isInt() && !found->isDouble() && !found->isBool() && !found->isIntList()) return false;
    value->replaceAllUsesWith(ir::constant_before(value->node(), *found));
    return true;
  }

  /// What a model makes larger in each run is not written out in its file.
  bool is_small(const at::Tensor& tensor, const std::vector<std::string>& sources) const {
    constexpr std::size_t kLittle = 4096;
    std::size_t bytes = kLittle;
    for (const std::string& name : sources) {
      const c10::IValue held = model_.attributes.attr(name);
      if (held.isTensor() && is_plain(held.toTensor())) bytes += held.toTensor().nbytes();
    }
    return tensor.defined() && tensor.layout() == at::kStrided && tensor.nbytes() <= bytes;
  }

  Model& model_;
  operators::FoldedConstants folded_;
};

}  // namespace

bool fold_constants(Model& model, const PassContext& /*context*/) {
  const c10::NoGradGuard no_grad;
  return ConstantFolding(model).run();
}

}  // namespace tsq::passes
