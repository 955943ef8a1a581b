// From an output backwards, through what only moves its numbers or keeps their order, to what makes them.

#include "operators/score_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <string_view>
#include <unordered_set>

#include "ir/constants.h"
#include "operators/inlined_graph.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace {

using ir::Node;
using ir::Value;
using torch::jit::Block;

constexpr int64_t kNone = -1;

/// Which dimension of the output each one of a value becomes.
struct Axes {
  std::optional<std::vector<int64_t>> all{};  ///< none: the number of dimensions is not known
  int64_t last{kNone};                        ///< of the last one, where only that is known

  [[nodiscard]] std::optional<std::size_t> index(int64_t dim) const {
    if (!all) return std::nullopt;
    const auto rank = static_cast<int64_t>(all->size());
    const int64_t index = dim < 0 ? dim + rank : dim;
    return index >= 0 && index < rank ? std::optional(static_cast<std::size_t>(index)) : std::nullopt;
  }
  [[nodiscard]] int64_t at(int64_t dim) const {
    if (!all) return dim == -1 ? last : kNone;
    const auto found = index(dim);
    return found ? (*all)[*found] : kNone;
  }
  /// Of an operand that is reshaped: its last dimension may be that of the result.
  [[nodiscard]] Axes reshaped() const { return {.last = at(-1)}; }
};

Axes identity(int64_t rank) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < rank; ++i) all.push_back(i);
  return {.all = std::move(all)};
}

struct Spot {
  const Value* value;
  Axes axes{};
  bool is_computed{false};  ///< the output is another number than the value, in the same order
};

std::string_view name_of(const Node* node) { return node->kind().toQualString(); }

template <std::size_t N>
bool is_in(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

constexpr std::array<std::string_view, 4> kSoftmax{"aten::softmax", "aten::_softmax", "aten::special_softmax",
                                                   "quantized::softmax"};
constexpr std::array<std::string_view, 3> kLogSoftmax{"aten::log_softmax", "aten::_log_softmax",
                                                      "aten::special_log_softmax"};
constexpr std::array<std::string_view, 3> kSigmoid{"aten::sigmoid", "aten::sigmoid_", "aten::special_expit"};
constexpr std::array<std::string_view, 4> kProducts{"aten::linear", "aten::addmm", "aten::matmul",
                                                    "aten::mm"};
constexpr std::array<std::string_view, 8> kConvolutions{
    "aten::conv1d",           "aten::conv2d",           "aten::conv3d",           "aten::_convolution",
    "aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d", "aten::convolution"};
constexpr std::array<std::string_view, 5> kWeighing{"aten::matmul", "aten::bmm", "aten::mm", "aten::baddbmm",
                                                    "aten::einsum"};
constexpr std::array<std::string_view, 6> kComparisons{"aten::eq", "aten::ne", "aten::lt",
                                                       "aten::le", "aten::gt", "aten::ge"};
constexpr std::array<std::string_view, 3> kPlaces{"aten::argmax", "aten::argmin", "aten::argsort"};
/// Their second result is where the numbers of the first were.
constexpr std::array<std::string_view, 6> kWithPlaces{"aten::max",  "aten::min",  "aten::topk",
                                                      "aten::sort", "aten::mode", "aten::kthvalue"};
constexpr std::array<std::string_view, 8> kFills{"aten::zeros",     "aten::empty",      "aten::full",
                                                 "aten::ones",      "aten::zeros_like", "aten::empty_like",
                                                 "aten::new_zeros", "aten::new_empty"};
constexpr std::array<std::string_view, 5> kCasts{"prim::unchecked_cast", "prim::data", "aten::detach_",
                                                 "prim::unchecked_unwrap_optional", "aten::_unwrap_optional"};

bool is_softmax(const Node* node) {
  return is_in(kSoftmax, name_of(node)) || is_in(kLogSoftmax, name_of(node));
}
bool is_product(const Node* node) {
  return is_in(kProducts, name_of(node)) || name_of(node).starts_with("quantized::linear");
}
bool is_convolution(const Node* node) {
  return is_in(kConvolutions, name_of(node)) || name_of(node).starts_with("quantized::conv");
}

std::optional<int64_t> integer(const Node* node, std::size_t input) {
  return node->inputs().size() > input ? ir::whole_number_constant(node->input(input)) : std::nullopt;
}

/// Where control flow takes a value from; empty of what a node computes.
std::vector<const Value*> origins(const Value* value) {
  const Node* node = value->node();
  if (is_in(kCasts, name_of(node))) return {node->input(0)};
  if (node->kind() == c10::prim::If)
    return {node->blocks()[0]->outputs()[value->offset()], node->blocks()[1]->outputs()[value->offset()]};
  if (node->kind() == c10::prim::Loop)
    return {node->blocks()[0]->outputs()[value->offset() + 1], node->input(value->offset() + 2)};
  const Node* owner = node->kind() == c10::prim::Param ? node->owningBlock()->owningNode() : nullptr;
  if (owner == nullptr || owner->kind() != c10::prim::Loop || value->offset() == 0) return {};
  return {owner->input(value->offset() + 1), owner->blocks()[0]->outputs()[value->offset()]};
}

/// What a list, tuple or dictionary holds: [place of the element, value].
using Element = std::pair<std::string, const Value*>;

constexpr std::string_view kAny = "[*]";

std::string key_place(const Value* key) {
  const auto constant = torch::jit::toIValue(key);
  if (constant && constant->isString()) return fmt::format("['{}']", constant->toStringRef());
  if (constant && constant->isInt()) return fmt::format("[{}]", constant->toInt());
  return std::string(kAny);
}

bool is_container(const Value* value) {
  const c10::TypeKind kind = value->type()->kind();
  return kind == c10::TypeKind::ListType || kind == c10::TypeKind::TupleType ||
         kind == c10::TypeKind::DictType;
}

void add_elements(const Value* container, std::set<const Value*>& seen, std::vector<Element>& elements) {
  if (!seen.insert(container).second) return;
  const Node* node = container->node();
  const bool is_list = node->kind() == c10::prim::ListConstruct;
  if (is_list || node->kind() == c10::prim::TupleConstruct) {
    for (std::size_t i = 0; i < node->inputs().size(); ++i)
      elements.emplace_back(fmt::format("[{}]", i), node->input(i));
  } else if (node->kind() == c10::prim::DictConstruct) {
    for (std::size_t i = 0; i + 1 < node->inputs().size(); i += 2)
      elements.emplace_back(key_place(node->input(i)), node->input(i + 1));
  } else if (node->kind() == c10::aten::add || node->kind() == c10::aten::add_) {
    for (const Value* part : node->inputs()) {
      if (!is_container(part)) continue;
      std::vector<Element> parts;
      add_elements(part, seen, parts);
      for (const Element& each : parts) elements.emplace_back(kAny, each.second);
    }
  }
  for (const Value* origin : origins(container)) add_elements(origin, seen, elements);
  // What is put in later.
  for (const torch::jit::Use& use : container->uses()) {
    const std::string_view name = name_of(use.user);
    if (use.offset != 0) continue;
    if (name == "aten::append") elements.emplace_back(kAny, use.user->input(1));
    if (name == "aten::_set_item") elements.emplace_back(key_place(use.user->input(1)), use.user->input(2));
    if (name == "aten::extend" || (name == "aten::add_" && is_container(container)))
      add_elements(use.user->input(1), seen, elements);
  }
}

std::vector<Element> elements_of(const Value* container) {
  std::set<const Value*> seen;
  std::vector<Element> elements;
  add_elements(container, seen, elements);
  return elements;
}

bool is_place(const std::string& element, const std::string& wanted) {
  return element == wanted || element == kAny || wanted == kAny;
}

/// All tensors of a result.
void add_outputs(const std::string& place, const Value* value, int depth,
                 std::vector<std::pair<std::string, const Value*>>& outputs) {
  constexpr int kDeepest = 8;
  if (!is_container(value)) {
    outputs.emplace_back(place, value);
    return;
  }
  if (depth > kDeepest) return;
  const std::vector<Element> elements = elements_of(value);
  for (const auto& [key, element] : elements) add_outputs(place + key, element, depth + 1, outputs);
  // An operator's list, as that of split.
  if (elements.empty()) outputs.emplace_back(place + std::string(kAny), value);
}

/// "output[3]" and "output[*]" are one place.
bool matches(std::string_view pattern, std::string_view place) {
  while (!pattern.empty()) {
    if (pattern.starts_with(kAny) && place.starts_with('[')) {
      pattern.remove_prefix(kAny.size());
      place.remove_prefix(std::min(place.size(), place.find(']') + 1));
    } else {
      if (place.empty() || pattern.front() != place.front()) return false;
      pattern.remove_prefix(1);
      place.remove_prefix(1);
    }
  }
  return place.empty();
}

bool moves(const Node* node) {
  const OperatorTraits* row = traits_of(node);
  return moves_values(row) || has(row, IsIdentity) || (row != nullptr && row->values == Values::Converted) ||
         name_of(node) == "aten::dequantize" || name_of(node) == "aten::quantize_per_tensor";
}

/// Whether a value, moved or not, is an operand of a product of matrices.
bool weighs_values(const Value* value) {
  std::deque<const Value*> open{value};
  std::unordered_set<const Value*> seen;
  while (!open.empty()) {
    const Value* next = open.front();
    open.pop_front();
    if (!seen.insert(next).second) continue;
    for (const torch::jit::Use& use : next->uses()) {
      if (is_in(kWeighing, name_of(use.user))) return true;
      const Block* block = use.user->owningBlock();
      if (use.user == block->return_node()) {
        const Node* owner = block->owningNode();
        if (owner != nullptr && owner->kind() == c10::prim::If) open.push_back(owner->output(use.offset));
      } else if (use.offset == 0 && moves(use.user)) {
        for (const Value* result : use.user->outputs()) open.push_back(result);
      }
    }
  }
  return false;
}

/// Whether a value is what a comparison says, in whatever dtype and shape.
bool is_mask(const Value* value) {
  const Node* node = value->node();
  if (is_in(kComparisons, name_of(node))) return true;
  const bool is_opposite = node->kind() == c10::aten::rsub || name_of(node) == "aten::logical_not" ||
                           name_of(node) == "aten::bitwise_not";
  return (moves(node) || is_opposite) && !node->inputs().empty() && is_mask(node->input(0));
}

c10::IValue attribute_of(const torch::jit::Module& model, const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::Constant) return torch::jit::toIValue(value).value_or(c10::IValue());
  if (node->kind() == c10::prim::Param && value->offset() == 0) return model._ivalue();
  if (node->kind() != c10::prim::GetAttr) return {};
  const c10::IValue object = attribute_of(model, node->input(0));
  if (!object.isObject()) return {};
  const std::string& name = node->s(c10::attr::name);
  return object.toObjectRef().type()->hasAttribute(name) ? object.toObjectRef().getAttr(name) : c10::IValue();
}

/// A parameter or a constant.
bool is_held(const torch::jit::Module& model, const Value* value) {
  return attribute_of(model, value).isTensor();
}

class Walk {
 public:
  Walk(const torch::jit::Module& model, const Value* output, int64_t rank) : model_(model) {
    open_.push_back({.value = output, .axes = identity(rank)});
  }

  ScoreFact run() {
    ScoreFact layer;
    while (!open_.empty()) {
      const Spot spot = open_.front();
      open_.pop_front();
      if (!seen_.insert(spot.value).second) continue;
      const ScoreFact fact = fact_of(spot);
      if (fact.maker != ScoreMaker::Unknown && fact.maker != ScoreMaker::Layer) return fact;
      if (fact.maker == ScoreMaker::Layer) {
        if (layer.maker == ScoreMaker::Unknown) layer = fact;
        continue;
      }
      step(spot);
    }
    return layer;
  }

 private:
  static std::optional<int64_t> known(int64_t axis) {
    return axis == kNone ? std::nullopt : std::optional(axis);
  }

  static bool is_label(const Value* value) {
    const std::string_view name = name_of(value->node());
    return is_in(kPlaces, name) || is_in(kComparisons, name) ||
           (is_in(kWithPlaces, name) && value->offset() == 1);
  }

  /// What is known at a value, by its maker or its readers.
  [[nodiscard]] ScoreFact fact_of(const Spot& spot) const {
    const Node* node = spot.value->node();
    if (is_label(spot.value) && !spot.is_computed) return {.maker = ScoreMaker::Labels};
    if (is_softmax(node)) {
      const bool is_logarithm = is_in(kLogSoftmax, name_of(node));
      const auto dim = integer(node, 1);
      const ScoreMaker maker = is_logarithm                ? ScoreMaker::LogSoftmax
                               : weighs_values(spot.value) ? ScoreMaker::Attention
                                                           : ScoreMaker::Softmax;
      return {.maker = maker, .dim = dim ? known(spot.axes.at(*dim)) : std::nullopt};
    }
    // Of another number than the sigmoid's, one half says nothing.
    if (is_in(kSigmoid, name_of(node)) && !spot.is_computed) return {.maker = ScoreMaker::Sigmoid};
    for (const torch::jit::Use& use : spot.value->uses()) {
      if (const auto dim = compared_along(use))
        return {.maker = ScoreMaker::Compared, .dim = known(spot.axes.at(*dim))};
    }
    if (spot.is_computed) return {};
    if (is_product(node))
      return {.maker = ScoreMaker::Layer, .dim = known(spot.axes.at(-1)), .classes = features(node)};
    if (is_convolution(node)) {
      const bool has_batch = !spot.axes.all || spot.axes.all->size() > 2;
      return {.maker = ScoreMaker::Layer,
              .dim = known(spot.axes.at(has_batch ? 1 : 0)),
              .classes = features(node)};
    }
    return {};
  }

  /// The dimension along which a reader looks for the largest numbers.
  static std::optional<int64_t> compared_along(const torch::jit::Use& use) {
    if (use.offset != 0) return std::nullopt;
    const std::string_view name = name_of(use.user);
    const bool is_read =
        !use.user->outputs().empty() &&
        std::ranges::any_of(use.user->outputs(), [](const Value* result) { return result->hasUses(); });
    if (!is_read) return std::nullopt;
    if (name == "aten::argmax" || (is_softmax(use.user) && !weighs_values(use.user->output())))
      return integer(use.user, 1);
    if (name == "aten::topk") return use.user->inputs().size() > 2 ? integer(use.user, 2) : -1;
    // The maximum alone is a pool.
    if (name == "aten::max" && use.user->outputs().size() == 2 && use.user->output(1)->hasUses())
      return integer(use.user, 1);
    return std::nullopt;
  }

  [[nodiscard]] std::optional<int64_t> features(const Node* layer) const {
    if (layer->inputs().size() < 2) return std::nullopt;
    const c10::IValue weight = attribute_of(model_, layer->input(1));
    const bool is_usual = name_of(layer) == "aten::linear" || name_of(layer) == "aten::conv1d" ||
                          name_of(layer) == "aten::conv2d" || name_of(layer) == "aten::conv3d";
    return is_usual && weight.isTensor() && weight.toTensor().defined() && weight.toTensor().dim() > 0
               ? std::optional(weight.toTensor().size(0))
               : std::nullopt;
  }

  void open(const Value* value, Axes axes, bool is_computed) {
    open_.push_back({.value = value, .axes = std::move(axes), .is_computed = is_computed});
  }

  void step(const Spot& spot) {
    const Node* node = spot.value->node();
    const std::vector<const Value*> from = origins(spot.value);
    for (const Value* origin : from) open(origin, spot.axes, spot.is_computed);
    if (!from.empty() || node->kind() == c10::prim::Param) return;
    if (is_in(kFills, name_of(node))) {
      open_written(spot);
      return;
    }
    if (takes_element(spot) || joins(spot) || node->inputs().empty()) return;
    const std::string_view name = name_of(node);
    if (name == "aten::where" && node->inputs().size() == 3) {
      open(node->input(1), spot.axes, spot.is_computed);
      open(node->input(2), spot.axes, spot.is_computed);
    } else if (name == "aten::masked_fill" || name == "aten::masked_fill_") {
      open(node->input(0), spot.axes, spot.is_computed);
    } else if (moves(node)) {
      open(node->input(0), axes_before(node, spot.axes), spot.is_computed);
    } else {
      compute(node, spot);
    }
  }

  /// What is written into an empty tensor, part by part.
  void open_written(const Spot& whole) {
    for (const torch::jit::Use& use : whole.value->uses()) {
      if (use.offset != 0) continue;
      const std::string_view name = name_of(use.user);
      if (name == "aten::select") {
        open_written({.value = use.user->output(),
                      .axes = without(whole.axes, integer(use.user, 1)),
                      .is_computed = whole.is_computed});
      } else if (name == "aten::slice" || name == "aten::narrow") {
        open_written({.value = use.user->output(), .axes = whole.axes, .is_computed = whole.is_computed});
      } else if (name == "aten::copy_") {
        open(use.user->input(1), whole.axes, whole.is_computed);
      } else if (name == "aten::index_put_") {
        open(use.user->input(2), whole.axes.reshaped(), whole.is_computed);
      }
    }
  }

  /// Arithmetic that leaves the largest number of a row where it is.
  void compute(const Node* node, const Spot& spot) {
    const std::string_view name = name_of(node);
    const bool is_sum = node->kind() == c10::aten::add || node->kind() == c10::aten::add_;
    const bool is_product = node->kind() == c10::aten::mul || node->kind() == c10::aten::mul_;
    const bool is_quotient = node->kind() == c10::aten::div || node->kind() == c10::aten::div_;
    if (is_sum || is_product || is_quotient) {
      const auto number = ir::number_constant(node->input(1));
      if (is_sum && is_held(model_, node->input(1)))
        open(node->input(0), spot.axes, spot.is_computed);
      else if (is_sum && is_held(model_, node->input(0)))
        open(node->input(1), spot.axes, spot.is_computed);
      else if (number && (is_sum || *number > 0))
        open(node->input(0), spot.axes, true);
      if (!is_product) return;
      if (is_mask(node->input(1)))
        open(node->input(0), spot.axes, spot.is_computed);
      else if (is_mask(node->input(0)))
        open(node->input(1), spot.axes, spot.is_computed);
      return;
    }
    const OperatorTraits* row = traits_of(node);
    if (has(row, Monotone) && has(row, Elementwise) && name != "aten::sign")
      open(node->input(0), spot.axes, true);
  }

  /// An element of a list, tuple or dictionary.
  bool takes_element(const Spot& spot) {
    const Node* node = spot.value->node();
    std::string place;
    if (node->kind() == c10::prim::TupleUnpack || node->kind() == c10::prim::ListUnpack) {
      place = fmt::format("[{}]", spot.value->offset());
    } else if (node->kind() == c10::prim::TupleIndex || name_of(node) == "aten::__getitem__") {
      place = key_place(node->input(1));
    } else {
      return false;
    }
    const Value* container = node->input(0);
    const std::vector<Element> elements = elements_of(container);
    for (const auto& [key, element] : elements) {
      if (is_place(key, place)) open(element, spot.axes, spot.is_computed);
    }
    // What split, chunk and unbind have of a tensor.
    const Node* made = container->node();
    if (elements.empty() && moves(made)) open(made->input(0), axes_before(made, spot.axes), spot.is_computed);
    return true;
  }

  /// Tensors in a row. Numbers of several tensors in one row of classes are no scores.
  bool joins(const Spot& spot) {
    const Node* node = spot.value->node();
    const bool stacks = node->kind() == c10::aten::stack;
    if (!stacks && node->kind() != c10::aten::cat) return false;
    Axes axes = spot.axes;
    if (const auto index = axes.index(integer(node, 1).value_or(0)); index && stacks) {
      axes.all->erase(axes.all->begin() + static_cast<std::ptrdiff_t>(*index));
    } else if (index) {
      (*axes.all)[*index] = kNone;
    } else {
      axes = {};
    }
    for (const auto& [key, element] : elements_of(node->input(0))) open(element, axes, spot.is_computed);
    return true;
  }

  /// Of the operand of what moves values.
  static Axes axes_before(const Node* node, const Axes& axes) {
    const OperatorTraits* row = traits_of(node);
    const std::string_view row_name = row == nullptr ? std::string_view() : row->name;
    if (row == nullptr) return axes;  // quantize and dequantize
    if (row_name == "transpose") return swapped(axes, integer(node, 1), integer(node, 2));
    if (row_name == "t") return swapped(axes, 0, 1);
    if (row_name == "permute") return permuted(axes, ir::constant_value(node->input(1)));
    if (row_name == "unsqueeze") return without(axes, integer(node, 1));
    if (row_name == "squeeze" || row_name == "select") return with_one_more(axes, integer(node, 1));
    if (row_name == "unbind") return with_one_more(axes, integer(node, 1).value_or(0));
    if (row->has(KeepsRank) && row_name != "movedim" && row_name != "rot90") return axes;
    const bool is_same = row->has(IsIdentity) || row->values == Values::Converted || row_name == "clone" ||
                         row_name == "contiguous" || row_name == "detach" || row_name == "alias";
    return is_same ? axes : axes.reshaped();
  }

  static Axes swapped(const Axes& axes, std::optional<int64_t> one, std::optional<int64_t> other) {
    const auto first = one ? axes.index(*one) : std::nullopt;
    const auto second = other ? axes.index(*other) : std::nullopt;
    if (!first || !second) return {};
    Axes result = axes;
    std::swap((*result.all)[*first], (*result.all)[*second]);
    return result;
  }

  static Axes permuted(const Axes& axes, const std::optional<c10::IValue>& order) {
    if (!order || !order->isIntList() || !axes.all || order->toIntVector().size() != axes.all->size())
      return {};
    Axes result{.all = std::vector<int64_t>(axes.all->size(), kNone)};
    const std::vector<int64_t> dims = order->toIntVector();
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (const auto index = axes.index(dims[i])) (*result.all)[*index] = (*axes.all)[i];
    }
    return result;
  }

  static Axes without(const Axes& axes, std::optional<int64_t> dim) {
    const auto index = dim ? axes.index(*dim) : std::nullopt;
    if (!index) return {};
    Axes result = axes;
    result.all->erase(result.all->begin() + static_cast<std::ptrdiff_t>(*index));
    return result;
  }

  static Axes with_one_more(const Axes& axes, std::optional<int64_t> dim) {
    if (!axes.all || !dim) return {};
    const auto rank = static_cast<int64_t>(axes.all->size()) + 1;
    const int64_t index = *dim < 0 ? *dim + rank : *dim;
    if (index < 0 || index >= rank) return {};
    Axes result = axes;
    result.all->insert(result.all->begin() + index, kNone);
    return result;
  }

  const torch::jit::Module& model_;
  std::deque<Spot> open_{};
  std::unordered_set<const Value*> seen_{};
};

}  // namespace

ScoreGraph::ScoreGraph(const torch::jit::Module& model)
    : model_(model), graph_(inlined_graph(model, "forward")) {
  if (!graph_) return;
  for (const Value* result : graph_->outputs()) add_outputs("output", result, 0, outputs_);
}

ScoreFact ScoreGraph::of(const std::string& place, int64_t rank) const {
  ScoreFact found;
  for (const auto& [pattern, value] : outputs_) {
    if (!matches(pattern, place)) continue;
    const ScoreFact fact = Walk(model_, value, rank).run();
    if (fact.maker == ScoreMaker::Unknown) continue;
    if (found.maker == ScoreMaker::Unknown || found.maker == ScoreMaker::Layer) found = fact;
  }
  return found;
}

}  // namespace tsq::operators
