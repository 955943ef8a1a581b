#include "operators/known_sizes.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/arguments.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace {

using ir::Node;
using ir::Value;
using Size = std::optional<std::int64_t>;

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

/// A dimension counted from the last one; none where the rank would have to be known.
Size counted_from_last(const Size& dim, const Size& rank) {
  if (!dim || *dim < 0) return dim;
  return rank ? Size(*dim - *rank) : std::nullopt;
}

/// A number of a list by its place, counted as Python does.
Size number_at(const std::vector<Size>& numbers, std::int64_t place) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  if (place < 0) place += count;
  return place >= 0 && place < count ? numbers[static_cast<std::size_t>(place)] : std::nullopt;
}

/// As a view is written.
TensorSizes written_sizes(const Node* node) {
  const auto sizes = numbers_of(node->input(1));
  if (!sizes) return {};
  TensorSizes result{.rank = static_cast<std::int64_t>(sizes->size())};
  for (std::int64_t dim = -*result.rank; dim < 0; ++dim) {
    const Size size = number_at(*sizes, dim);
    if (size && *size >= 0) result.of_dims.emplace(dim, *size);
  }
  return result;
}

TensorSizes transposed(const Node* node, const TensorSizes& x) {
  TensorSizes result{.rank = x.rank};
  const Size a = counted_from_last(constant_argument(node, "dim0"), x.rank);
  const Size b = counted_from_last(constant_argument(node, "dim1"), x.rank);
  if (!a || !b) return result;
  for (const auto& [dim, size] : x.of_dims)
    result.of_dims.emplace(dim == *a ? *b : dim == *b ? *a : dim, size);
  return result;
}

TensorSizes permuted(const Node* node, const TensorSizes& x) {
  const auto order = numbers_of(node->input(1));
  if (!order) return {};
  TensorSizes result{.rank = static_cast<std::int64_t>(order->size())};
  for (std::int64_t dim = -*result.rank; dim < 0; ++dim) {
    const Size from = counted_from_last(number_at(*order, dim), result.rank);
    const auto size = from ? x.of_dims.find(*from) : x.of_dims.end();
    if (size != x.of_dims.end()) result.of_dims.emplace(dim, size->second);
  }
  return result;
}

/// Of what has lost the dimension `lost`.
TensorSizes without_dim(const TensorSizes& x, const Size& lost) {
  TensorSizes result{.rank = x.rank ? Size(*x.rank - 1) : std::nullopt};
  const Size place = counted_from_last(lost, x.rank);
  if (!place) {
    if (lost == 0) result.of_dims = x.of_dims;  // the first one: none after it moves
    return result;
  }
  for (const auto& [dim, size] : x.of_dims) {
    if (dim != *place) result.of_dims.emplace(dim > *place ? dim : dim + 1, size);
  }
  return result;
}

/// Of the parts of what is split along one dimension.
TensorSizes parts_along(const Node* made, const TensorSizes& x) {
  TensorSizes result{.rank = x.rank};
  const Size place = counted_from_last(constant_argument(made, "dim"), x.rank);
  if (!place) return result;
  result.of_dims = x.of_dims;
  result.of_dims.erase(*place);
  return result;
}

/// What a flatten to the last dimension leaves.
Size flattened_rank(const Node* node) {
  const Size start = constant_argument(node, "start_dim");
  const bool is_to_the_last = constant_argument(node, "end_dim") == -1;
  return is_to_the_last && start.value_or(-1) >= 0 ? Size(*start + 1) : std::nullopt;
}

class SizesOfNode {
 public:
  SizesOfNode(const KnownSizes& known, const ir::Model& model, const Node* node)
      : known_(known), model_(model), node_(node) {}

  [[nodiscard]] TensorSizes run() const {
    TensorSizes result = by_operator();
    if (const Size width = width_of_layer()) result.of_dims[-1] = *width;
    return result;
  }

 private:
  [[nodiscard]] bool is(const Node* node, std::initializer_list<std::string_view> names) const {
    return is_one_of(model_, node, names);
  }

  [[nodiscard]] TensorSizes of(const Value* value) const {
    if (const at::Tensor held = ir::held_tensor(model_, value); held.defined()) return {.rank = held.dim()};
    const auto found = known_.find(value);
    return found == known_.end() ? TensorSizes() : found->second;
  }

  [[nodiscard]] TensorSizes of_first() const {
    const auto operands = ir::operands(node_);
    return operands.empty() ? TensorSizes() : of(operands.front());
  }

  [[nodiscard]] TensorSizes by_operator() const {
    if (is(node_, {"view", "reshape", "_unsafe_view"})) return written_sizes(node_);
    if (is(node_, {"transpose"})) return transposed(node_, of(node_->input(0)));
    if (is(node_, {"permute"})) return permuted(node_, of(node_->input(0)));
    if (is(node_, {"flatten"})) return {.rank = flattened_rank(node_)};
    if (is(node_, {"select"})) return without_dim(of(node_->input(0)), constant_argument(node_, "dim"));
    if (node_->kind() == c10::prim::ListUnpack) return of_list(node_->input(0)->node());
    const OperatorTraits* row = traits_of(model_, node_);
    if (has(row, KeepsShape)) return of_first();
    if (has(row, ElementwiseOfTwo)) return of_two();
    return keeps_rank(row) || is(node_, {"linear"}) ? TensorSizes{.rank = of_first().rank} : TensorSizes();
  }

  /// Of a layer whose result has as many values in a row as its weight says.
  [[nodiscard]] Size width_of_layer() const {
    if (!ir::is_module_call(node_)) return std::nullopt;
    const ir::ModuleCall& call = ir::call_of(model_, node_);
    if (call.embedding && !call.embedding->is_bag) return call.embedding->weight.size(-1);
    if (call.weighted && is(node_, {"linear"})) return call.weighted->weight.size(0);
    if (!call.module || !is(node_, {"layer_norm"})) return std::nullopt;
    const c10::IValue weight = call.module->attr("weight", c10::IValue());
    return weight.isTensor() ? Size(weight.toTensor().size(-1)) : std::nullopt;
  }

  /// Of an element of a list of tensors.
  [[nodiscard]] TensorSizes of_list(const Node* made) const {
    if (is(made, {"unbind"})) return without_dim(of(made->input(0)), constant_argument(made, "dim"));
    if (is(made, {"split", "split_with_sizes", "chunk"})) return parts_along(made, of(made->input(0)));
    return {};
  }

  /// The other operand has the same size, or 1, or not as many dimensions.
  [[nodiscard]] TensorSizes of_two() const {
    TensorSizes result{.rank = 0};
    for (const Value* operand : ir::operands(node_)) {
      if (!ir::holds_tensor(operand)) continue;
      const TensorSizes sizes = of(operand);
      result.rank = sizes.rank && result.rank ? Size(std::max(*sizes.rank, *result.rank)) : std::nullopt;
      for (const auto& [dim, size] : sizes.of_dims) {
        if (size > 1) result.of_dims.emplace(dim, size);
      }
    }
    return result;
  }

  const KnownSizes& known_;
  const ir::Model& model_;
  const Node* node_;
};

}  // namespace

void add_sizes(KnownSizes& known, const ir::Model& model, const Node* node) {
  const bool makes_tensors = std::ranges::any_of(node->outputs(), [](const Value* output) {
    return output->type()->isSubtypeOf(*c10::TensorType::get());
  });
  if (!makes_tensors || node->kind() == c10::prim::Constant || node->kind() == c10::prim::GetAttr) return;
  const TensorSizes sizes = SizesOfNode(known, model, node).run();
  if (!sizes.rank && sizes.of_dims.empty()) return;
  for (const Value* output : node->outputs()) known.emplace(output, sizes);
}

KnownSizes known_sizes(const ir::Model& model) {
  KnownSizes known;
  for (const Node* node : ir::nodes_in_order(*model.graph)) add_sizes(known, model, node);
  return known;
}

Size known_size(const KnownSizes& known, const Value* tensor, std::int64_t dim) {
  const auto found = known.find(tensor);
  if (found == known.end()) return std::nullopt;
  const Size from_last = counted_from_last(dim, found->second.rank);
  const auto size = from_last ? found->second.of_dims.find(*from_last) : found->second.of_dims.end();
  return size == found->second.of_dims.end() ? std::nullopt : Size(size->second);
}

}  // namespace tsq::operators
