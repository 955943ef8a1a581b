// Sizes that the parameters of layers or constants tell become numbers, and so does what is computed of them.
//   b, t, d = linear(x).size(); (d // 4) ** -0.5   →   0.125

#include <torch/csrc/jit/passes/constant_propagation.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/constants.h"
#include "ir/edit.h"
#include "operators/known_sizes.h"
#include "passes/context/nodes.h"
#include "passes/plain/passes.h"

namespace tsq::passes {
namespace {

/// Puts numbers in the place of sizes, in the order of the graph: a view is written with sizes that are
/// numbers by the time that it is visited.
class SizeFolding {
 public:
  explicit SizeFolding(const Model& model) : model_(model) {}

  /// What the outputs of a node that stays tell of sizes.
  void visit(const Node* node) { operators::add_sizes(sizes_, model_, node); }

  /// Of a call of aten::size. Whether one was known.
  bool fold(Node* node) const {
    const Value* tensor = node->input(0);
    if (node->inputs().size() == 2) {
      const auto dim = ir::whole_number_constant(node->input(1));
      return dim && know(node->output(), operators::known_size(sizes_, tensor, *dim));
    }
    bool has_changed = false;
    for (const torch::jit::Use& use : std::vector(node->output()->uses())) {
      Node* reader = use.user;
      if (reader->kind() == c10::prim::ListUnpack) has_changed |= know_all(tensor, reader);
      if (reader->kind() != c10::aten::__getitem__) continue;
      const auto dim = ir::whole_number_constant(reader->input(1));
      has_changed |= dim && know(reader->output(), operators::known_size(sizes_, tensor, *dim));
    }
    return has_changed;
  }

 private:
  static bool know(Value* size, const std::optional<std::int64_t>& known) {
    if (!known || !size->hasUses()) return false;
    size->replaceAllUsesWith(ir::constant_before(size->node(), *known));
    return true;
  }

  /// Of a tensor whose rank the number of its sizes tells.
  bool know_all(const Value* tensor, Node* unpacked) const {
    bool has_changed = false;
    const auto rank = static_cast<std::int64_t>(unpacked->outputs().size());
    for (std::int64_t dim = 0; dim < rank; ++dim) {
      has_changed |= know(unpacked->output(static_cast<std::size_t>(dim)),
                          operators::known_size(sizes_, tensor, dim - rank));
    }
    return has_changed;
  }

  const Model& model_;
  operators::KnownSizes sizes_{};
};

bool is_number(const c10::IValue& value) {
  return value.isScalar() || (value.isTensor() && value.toTensor().dim() == 0);
}

/// Whether a node computes a number of constants; it is one then. Traces compute numbers as tensors.
bool compute_now(Node* node) {
  if (node->kind() == c10::prim::Constant || node->outputs().size() != 1 || node->inputs().empty() ||
      !std::ranges::all_of(node->inputs(), ir::is_constant))
    return false;
  const auto computed = torch::jit::runNodeIfInputsAreConstant(node);
  if (!computed || !is_number(computed->front())) return false;
  replace_node(node, ir::constant_before(node, computed->front()));
  return true;
}

}  // namespace

bool fold_sizes(Model& model, const PassContext& /*context*/) {
  SizeFolding sizes(model);
  const bool has_changed = change_nodes(model, [&](Node* node) {
    if (node->kind() == c10::aten::size) return sizes.fold(node);
    if (compute_now(node)) return true;
    sizes.visit(node);
    return false;
  });
  if (has_changed) ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
