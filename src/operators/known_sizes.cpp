#include "operators/known_sizes.h"

#include <algorithm>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/arguments.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace {

using ir::Node;
using ir::Value;
using Size = KnownSizes::Size;

/// Looks through so many operators.
constexpr int kDistance = 16;

/// The numbers of a list that is written down; empty ones are not constant. None for other lists.
std::optional<std::vector<Size>> numbers_of(const Value* list) {
  if (list == nullptr) return std::nullopt;
  std::vector<Size> numbers;
  if (const auto constant = ir::constant_value(list); constant && constant->isIntList()) {
    for (const std::int64_t number : constant->toIntVector()) numbers.emplace_back(number);
    return numbers;
  }
  if (list->node()->kind() != c10::prim::ListConstruct) return std::nullopt;
  for (const Value* number : list->node()->inputs()) numbers.push_back(ir::whole_number_constant(number));
  return numbers;
}

Size constant_argument(const Node* node, const char* name) {
  const Value* argument = argument_named(node, name);
  return argument == nullptr ? std::nullopt : ir::whole_number_constant(argument);
}

Size of_view(const Node* node, std::int64_t dim) {
  const auto sizes = numbers_of(node->input(1));
  if (!sizes) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(sizes->size());
  const std::int64_t place = dim < 0 ? rank + dim : dim;
  const Size size = place >= 0 && place < rank ? sizes->at(static_cast<std::size_t>(place)) : std::nullopt;
  return size.value_or(-1) >= 0 ? size : std::nullopt;
}

/// `dim` counted from the same end as `like`; as it is where the rank is not known.
std::int64_t counted_as(std::int64_t dim, std::int64_t like, const Size& rank) {
  if ((dim < 0) == (like < 0) || !rank) return dim;
  return dim < 0 ? dim + *rank : dim - *rank;
}

}  // namespace

KnownSizes::KnownSizes(const ir::Model& model) : model_(model) {
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->outputs().empty()) continue;
    if (const Size rank = rank_made_by(node)) {
      for (const Value* output : node->outputs()) ranks_[output] = *rank;
    }
  }
}

KnownSizes::Size KnownSizes::of(const Value* tensor, std::int64_t dim) const {
  if (const Size size = at(tensor, dim, kDistance)) return size;
  const Size rank = rank_of(tensor);
  return rank ? at(tensor, dim < 0 ? dim + *rank : dim - *rank, kDistance) : std::nullopt;
}

bool KnownSizes::is(const Node* node, std::initializer_list<std::string_view> names) const {
  return is_one_of(model_, node, names);
}

KnownSizes::Size KnownSizes::at(const Value* value, std::int64_t dim, int distance) const {
  const Node* node = value->node();
  if (const Size size = of_layer(node, dim)) return size;
  if (distance == 0) return std::nullopt;
  if (is(node, {"view", "reshape", "_unsafe_view"})) return of_view(node, dim);
  if (is(node, {"transpose"})) return of_transpose(node, dim, distance);
  if (is(node, {"permute"})) return of_permutation(node, dim, distance);
  if (is(node, {"select"})) return of_part(node->input(0), constant_argument(node, "dim"), dim, distance);
  if (node->kind() == c10::prim::ListUnpack) return of_list(node->input(0)->node(), dim, distance);
  const OperatorTraits* row = traits_of(model_, node);
  if (has(row, KeepsShape)) return at(ir::operands(node).front(), dim, distance - 1);
  return has(row, ElementwiseOfTwo) && dim < 0 ? of_two(node, dim, distance) : std::nullopt;
}

/// Of a layer whose result has as many values in a row as its weight says.
KnownSizes::Size KnownSizes::of_layer(const Node* node, std::int64_t dim) const {
  if (dim != -1 || !ir::is_module_call(node)) return std::nullopt;
  const ir::ModuleCall& call = ir::call_of(model_, node);
  if (call.embedding && !call.embedding->is_bag) return call.embedding->weight.size(-1);
  if (call.weighted && is(node, {"linear"})) return call.weighted->weight.size(0);
  if (!call.module || !is(node, {"layer_norm"})) return std::nullopt;
  const c10::IValue weight = call.module->attr("weight", c10::IValue());
  return weight.isTensor() ? Size(weight.toTensor().size(-1)) : std::nullopt;
}

KnownSizes::Size KnownSizes::of_transpose(const Node* node, std::int64_t dim, int distance) const {
  const Size a = constant_argument(node, "dim0");
  const Size b = constant_argument(node, "dim1");
  if (!a || !b) return std::nullopt;
  const Size rank = rank_of(node->input(0));
  const std::int64_t first = counted_as(*a, dim, rank);
  const std::int64_t second = counted_as(*b, dim, rank);
  if ((first < 0) != (dim < 0) || (second < 0) != (dim < 0)) return std::nullopt;
  return at(node->input(0), dim == first ? second : dim == second ? first : dim, distance - 1);
}

KnownSizes::Size KnownSizes::of_permutation(const Node* node, std::int64_t dim, int distance) const {
  const auto order = numbers_of(node->input(1));
  if (!order) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(order->size());
  const std::int64_t place = dim < 0 ? rank + dim : dim;
  const Size from = place >= 0 && place < rank ? order->at(static_cast<std::size_t>(place)) : std::nullopt;
  return from ? at(node->input(0), *from < 0 ? *from : *from - rank, distance - 1) : std::nullopt;
}

/// Of what has lost the dimension `lost` of `whole`.
KnownSizes::Size KnownSizes::of_part(const Value* whole, const Size& lost, std::int64_t dim,
                                     int distance) const {
  if (!lost) return std::nullopt;
  const std::int64_t place = counted_as(*lost, dim, rank_of(whole));
  if ((place < 0) != (dim < 0)) return dim < 0 && *lost == 0 ? at(whole, dim, distance - 1) : std::nullopt;
  if (dim < 0) return at(whole, dim <= place ? dim - 1 : dim, distance - 1);
  return at(whole, dim >= place ? dim + 1 : dim, distance - 1);
}

/// Of an element of a list of tensors.
KnownSizes::Size KnownSizes::of_list(const Node* made, std::int64_t dim, int distance) const {
  if (is(made, {"unbind"})) return of_part(made->input(0), constant_argument(made, "dim"), dim, distance);
  if (!is(made, {"split", "split_with_sizes", "chunk"})) return std::nullopt;
  const Size along = constant_argument(made, "dim");
  if (!along) return std::nullopt;
  const std::int64_t place = counted_as(*along, dim, rank_of(made->input(0)));
  const bool is_kept = (place < 0) == (dim < 0) && place != dim;
  return is_kept ? at(made->input(0), dim, distance - 1) : std::nullopt;
}

/// The other operand has the same size, or 1, or not as many dimensions.
KnownSizes::Size KnownSizes::of_two(const Node* node, std::int64_t dim, int distance) const {
  for (const Value* operand : ir::operands(node)) {
    const Size size = ir::holds_tensor(operand) ? at(operand, dim, distance - 1) : std::nullopt;
    if (size.value_or(1) > 1) return size;
  }
  return std::nullopt;
}

/// Of each output; those of the operands are known.
KnownSizes::Size KnownSizes::rank_made_by(const Node* node) const {
  if (is(node, {"view", "reshape", "_unsafe_view", "permute"})) {
    const auto numbers = numbers_of(node->input(1));
    return numbers ? Size(numbers->size()) : std::nullopt;
  }
  if (is(node, {"flatten"})) {
    const Size start = constant_argument(node, "start_dim");
    const bool is_to_the_last = constant_argument(node, "end_dim") == -1;
    return is_to_the_last && start.value_or(-1) >= 0 ? Size(*start + 1) : std::nullopt;
  }
  const Node* list = node->kind() == c10::prim::ListUnpack ? node->input(0)->node() : nullptr;
  if (is(node, {"select"}) || (list != nullptr && is(list, {"unbind"}))) {
    const Size rank = rank_of(list == nullptr ? node->input(0) : list->input(0));
    return rank ? Size(*rank - 1) : std::nullopt;
  }
  if (list != nullptr)
    return is(list, {"split", "split_with_sizes", "chunk"}) ? rank_of(list->input(0)) : std::nullopt;
  const OperatorTraits* row = traits_of(model_, node);
  if (has(row, ElementwiseOfTwo)) return widest_rank(node);
  return keeps_rank(row) || is(node, {"linear"}) ? rank_of(ir::operands(node).front()) : std::nullopt;
}

KnownSizes::Size KnownSizes::widest_rank(const Node* node) const {
  Size widest = 0;
  for (const Value* operand : ir::operands(node)) {
    if (!ir::holds_tensor(operand)) continue;
    const Size rank = rank_of(operand);
    if (!rank) return std::nullopt;
    widest = std::max(widest, rank);
  }
  return widest;
}

KnownSizes::Size KnownSizes::rank_of(const Value* value) const {
  if (const at::Tensor held = ir::held_tensor(model_, value); held.defined()) return held.dim();
  const auto known = ranks_.find(value);
  return known == ranks_.end() ? std::nullopt : Size(known->second);
}

}  // namespace tsq::operators
