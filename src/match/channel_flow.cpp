#include "match/channel_flow.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "match/channel_scaling.h"
#include "operators/arguments.h"
#include "operators/traits.h"
#include "operators/weighted.h"

namespace tsq::match {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

/// The tensors among what a node reads.
std::vector<Value*> tensors(const Node* node) {
  std::vector<Value*> operands = ir::operands(node);
  std::erase_if(operands, [](const Value* value) { return !ir::holds_tensor(value); });
  return operands;
}

bool is_tensor(const Value* value) { return value->type()->isSubtypeOf(*c10::TensorType::get()); }

}  // namespace

ChannelFlow::ChannelFlow(const Model& model, LayerOf layer_of, bool is_calibrated)
    : model_(model),
      layer_of_(std::move(layer_of)),
      is_calibrated_(is_calibrated),
      known_sizes_(operators::known_sizes(model)) {
  for (Node* node : ir::nodes_in_order(*model.graph)) visit(node);
  bind_unknown_uses();
}

const Channels* ChannelFlow::of(const Value* value) const {
  const auto found = channels_.find(value);
  return found == channels_.end() ? nullptr : &found->second;
}

const std::vector<int>* ChannelFlow::read_by(const Node* layer) const {
  const auto found = read_.find(layer);
  return found == read_.end() ? nullptr : &found->second;
}

int ChannelFlow::representative(int key) const {
  auto at = static_cast<std::size_t>(key);
  while (parents_[at] != static_cast<int>(at)) {
    parents_[at] = parents_[static_cast<std::size_t>(parents_[at])];
    at = static_cast<std::size_t>(parents_[at]);
  }
  return static_cast<int>(at);
}

void ChannelFlow::bind(const std::vector<int>& keys) {
  for (const int key : keys) bound_.insert(representative(key));
}

void ChannelFlow::bind(const Value* value) {
  if (const Channels* channels = of(value)) bind(channels->keys);
  if (const auto found = alike_.find(value); found != alike_.end()) bind(found->second.keys);
  if (const auto found = parts_.find(value); found != parts_.end()) {
    for (const Channels& part : found->second) bind(part.keys);
  }
}

std::vector<int> ChannelFlow::new_keys(int64_t count, Node* source) {
  std::vector<int> keys;
  for (int64_t i = 0; i < count; ++i) {
    const auto key = static_cast<int>(parents_.size());
    keys.push_back(key);
    parents_.push_back(key);
    sources_.push_back(source);
  }
  if (source == nullptr) bind(keys);
  return keys;
}

void ChannelFlow::unite(int a, int b) {
  a = representative(a);
  b = representative(b);
  if (a == b) return;
  if (bound_.contains(b)) bound_.insert(a);
  parents_[static_cast<std::size_t>(b)] = a;
}

/// Whether the channels of two values in the same places of their tensors have become one.
bool ChannelFlow::unite_all(const Channels& a, const Channels& b) {
  if (a.axis != b.axis || a.is_spread || b.is_spread || a.shape != b.shape || a.keys.size() != b.keys.size())
    return false;
  for (std::size_t i = 0; i < a.keys.size(); ++i) unite(a.keys[i], b.keys[i]);
  return true;
}

int64_t ChannelFlow::dims_in_name(std::string_view name) {
  const std::size_t end = name.find_last_of('d');
  const bool has_digit =
      end != std::string_view::npos && end > 0 && name[end - 1] >= '1' && name[end - 1] <= '3';
  return has_digit && end + 1 == name.size() ? name[end - 1] - '0' : 0;
}

std::vector<int> ChannelFlow::some_of(const std::vector<int>& keys, int64_t begin, int64_t end,
                                      int64_t step) {
  std::vector<int> result;
  for (int64_t i = begin; i < end; i += step) result.push_back(keys[static_cast<std::size_t>(i)]);
  return result;
}

bool ChannelFlow::is_one_of(const Node* node, std::initializer_list<std::string_view> names) const {
  return operators::is_one_of(model_, node, names);
}

std::optional<c10::IValue> ChannelFlow::constant(const Node* node, const std::string& name) const {
  const auto* const row = operators::traits_of(model_, node);
  const std::string op(row == nullptr ? "avg_pool2d" : row->name);
  return operators::argument_constant(model_, node, name, c10::Symbol::fromQualString("aten::" + op), name);
}

std::optional<int64_t> ChannelFlow::whole_number(const Node* node, const std::string& name) const {
  const auto value = constant(node, name);
  return value && value->isInt() ? std::optional(value->toInt()) : std::nullopt;
}

std::optional<std::vector<int64_t>> ChannelFlow::numbers(const Node* node, const std::string& name) const {
  const auto value = constant(node, name);
  if (value && value->isInt()) return std::vector<int64_t>{value->toInt()};
  return value && value->isIntList() ? std::optional(value->toIntVector()) : std::nullopt;
}

std::optional<int64_t> ChannelFlow::from_end(const std::optional<int64_t>& dim, int64_t rank) {
  if (!dim || *dim < 0) return dim;
  return rank > 0 ? std::optional(*dim - rank) : std::nullopt;
}

void ChannelFlow::visit(Node* node) {
  if (operators::has(operators::traits_of(model_, node), operators::ReadsShapeOnly)) {
    known_.insert(node);
    return;
  }
  if (const ir::Weighted* layer = layer_of_(node)) {
    if (visit_layer(node, *layer)) known_.insert(node);
    return;
  }
  if (is_affine_batch_norm(model_, node)) {
    if (visit_batch_norm(node)) known_.insert(node);
    return;
  }
  if (visit_list(node)) {
    known_.insert(node);
    return;
  }
  const auto operands = tensors(node);
  if (operands.empty() || node->outputs().size() != 1 || !node->blocks().empty()) return;
  std::optional<Channels> result;
  if (is_one_of(node, {"cat"})) {
    result = joined(node);
  } else if (is_one_of(node, {"stack"})) {
    result = stacked(node);
  } else if (is_one_of(node, {"add", "sub", "maximum", "minimum"})) {
    result = sum(node);
  } else if (is_one_of(node, {"mul", "div"})) {
    result = product(node);
  } else if (const Channels* x = of(operands.front())) {
    const Channels whole = *x;
    if (visit_parts(node, whole)) {
      known_.insert(node);
      return;
    }
    if (is_tensor(node->output())) result = result_of(node, whole);
    for (std::size_t i = 1; result && i < operands.size(); ++i) bind(operands[i]);
  }
  if (!result) return;
  channels_.emplace(node->output(), std::move(*result));
  known_.insert(node);
}

bool ChannelFlow::visit_layer(Node* node, const ir::Weighted& layer) {
  const auto dims = static_cast<int64_t>(layer.stride.size());
  const int64_t inputs = layer.weight.size(1) * layer.groups;
  int64_t rank = dims > 0 ? dims + 2 : 2;
  if (is_calibrated_) rank = layer.seen.input.sizes.defined() ? layer.seen.input.sizes.numel() : 0;
  channels_.emplace(
      node->output(),
      *of_new_sizes(Channels{.rank = rank, .axis = -1 - dims, .keys = new_keys(layer.weight.size(0), node)}));
  visit_addend(node);
  const Channels* x = of(node->input(0));
  if (x == nullptr) return true;
  const auto count = static_cast<int64_t>(x->keys.size());
  const bool fits =
      x->axis == -1 - dims && x->shape.empty() && (x->is_spread ? inputs % count == 0 : inputs == count);
  const bool is_known =
      !is_calibrated_ || (layer.seen.input.mean.defined() && layer.seen.input.mean.numel() == inputs);
  if (!fits || !is_known) return false;
  std::vector<int> keys;
  for (const int key : x->keys) keys.insert(keys.end(), static_cast<std::size_t>(inputs / count), key);
  read_.emplace(node, std::move(keys));
  readers_.push_back(node);
  return true;
}

/// What a fused layer adds to its result has the factors of that.
void ChannelFlow::visit_addend(const Node* layer) {
  if (layer->inputs().size() < 2) return;
  const Channels* addend = of(layer->input(1));
  if (addend != nullptr && unite_all(*of(layer->output()), *addend)) return;
  bind(layer->output());
  bind(layer->input(1));
}

/// Its channels are those of the second dimension.
bool ChannelFlow::visit_batch_norm(Node* node) {
  const ir::ModuleCall& call = ir::call_of(model_, node);
  const int64_t count = operators::batch_norm_parameters(*call.module)->running_mean.numel();
  const Channels* x = of(node->input(0));
  const int64_t dims = dims_in_name(call.type.name);
  if (x == nullptr) {
    // One dimension is of rows or of signals.
    if (dims > 1 && !call.has_unknown_rank)
      channels_.emplace(
          node->output(),
          *of_new_sizes(Channels{.rank = dims + 2, .axis = -1 - dims, .keys = new_keys(count, node)}));
    return true;
  }
  const bool fits =
      x->rank > 1 && x->axis == 1 - x->rank && !x->is_spread && count == static_cast<int64_t>(x->keys.size());
  if (!fits) return false;
  read_.emplace(node, x->keys);
  readers_.push_back(node);
  const Channels result{.rank = x->rank, .axis = x->axis, .keys = new_keys(count, node), .sizes = x->sizes};
  channels_.emplace(node->output(), result);
  return true;
}

/// Elements of what was split.
bool ChannelFlow::visit_list(Node* node) {
  const bool unpacks = node->kind() == c10::prim::ListUnpack;
  if (!unpacks && node->kind() != c10::aten::__getitem__) return false;
  const auto index = unpacks ? std::optional<int64_t>(0) : ir::whole_number_constant(node->input(1));
  const auto give = [&](std::size_t output, const Channels& channels) {
    channels_.emplace(node->outputs()[output], channels);
  };
  if (const auto found = alike_.find(node->input(0)); found != alike_.end()) {
    // Parts may differ in the size of what was split.
    for (std::size_t i = 0; i < node->outputs().size(); ++i) give(i, *of_new_sizes(found->second));
    return true;
  }
  const auto found = parts_.find(node->input(0));
  if (found == parts_.end() || !index) return false;
  const auto count = static_cast<int64_t>(found->second.size());
  if (unpacks) {
    if (node->outputs().size() != found->second.size()) return false;
    for (std::size_t i = 0; i < found->second.size(); ++i) give(i, found->second[i]);
    return true;
  }
  const int64_t at = *index < 0 ? *index + count : *index;
  if (at < 0 || at >= count) return false;
  give(0, found->second[static_cast<std::size_t>(at)]);
  return true;
}

/// chunk, split and unbind.
bool ChannelFlow::visit_parts(Node* node, const Channels& whole) {
  const bool chunks = is_one_of(node, {"chunk", "unsafe_chunk"});
  const bool splits = is_one_of(node, {"split", "unsafe_split"});
  const bool has_sizes = is_one_of(node, {"split_with_sizes", "unsafe_split_with_sizes"});
  const bool unbinds = is_one_of(node, {"unbind"});
  const auto axis = chunks || splits || has_sizes || unbinds ? from_end(whole_number(node, "dim"), whole.rank)
                                                             : std::nullopt;
  if (!axis || !whole.shape.empty()) return false;
  if (*axis != whole.axis) {
    alike_.emplace(node->output(), *of_new_sizes(unbinds ? without_dim(whole, *axis) : whole));
    return true;
  }
  if (unbinds) return false;
  const auto count = static_cast<int64_t>(whole.keys.size());
  std::vector<int64_t> sizes;
  const auto equal = [&](int64_t size) {
    for (int64_t left = count; left > 0 && size > 0; left -= size) sizes.push_back(std::min(left, size));
  };
  const auto number = chunks ? whole_number(node, "chunks") : whole_number(node, "split_size");
  const auto list = chunks ? std::nullopt : numbers(node, has_sizes ? "split_sizes" : "split_size");
  if (number && *number > 0) {
    equal(chunks ? (count + *number - 1) / *number : *number);
  } else if (list) {
    sizes = *list;
  }
  int64_t sum = 0;
  for (const int64_t size : sizes) sum += size;
  if (sizes.empty() || sum != count || whole.is_spread) return false;
  std::vector<Channels> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parts.push_back(with_new_channel_size(whole));
    parts.back().keys = some_of(whole.keys, begin, begin + size);
    begin += size;
  }
  parts_.emplace(node->output(), std::move(parts));
  return true;
}

/// Without another dimension than the channels', counted from the last one.
Channels ChannelFlow::without_dim(Channels channels, int64_t axis) {
  channels.rank = channels.rank == 0 ? 0 : channels.rank - 1;
  if (axis > channels.axis) ++channels.axis;
  return channels;
}

/// With sizes that nothing else has.
std::optional<Channels> ChannelFlow::of_new_sizes(std::optional<Channels> channels) {
  if (!channels) return channels;
  channels->sizes.clear();
  for (int64_t i = 0; i < channels->rank; ++i) channels->sizes.push_back(next_size_++);
  return channels;
}

std::optional<Channels> ChannelFlow::joined(Node* node) {
  const auto operands = tensors(node);
  const Channels* first = nullptr;
  for (const Value* operand : operands) {
    if (first == nullptr) first = of(operand);
  }
  if (first == nullptr) return std::nullopt;
  const auto axis = from_end(whole_number(node, "dim"), first->rank);
  if (!axis) return std::nullopt;
  Channels result{.rank = first->rank, .axis = first->axis};
  if (*axis == first->axis) result.sizes = first->sizes;
  for (const Value* operand : operands) {
    const Channels* part = of(operand);
    if (*axis != first->axis) {
      if (part == nullptr || !unite_all(*first, *part)) return std::nullopt;
      result.keys = first->keys;
      continue;
    }
    if (part != nullptr && (part->axis != first->axis || part->is_spread || !part->shape.empty()))
      return std::nullopt;
    std::vector<int> keys;
    if (part != nullptr) {
      keys = part->keys;
    } else {
      const auto count = operators::known_size(known_sizes_, operand, first->axis);
      if (!count) return std::nullopt;
      keys = new_keys(*count, nullptr);
    }
    result.keys.insert(result.keys.end(), keys.begin(), keys.end());
  }
  return *axis == first->axis ? std::optional(with_new_channel_size(std::move(result)))
                              : of_new_sizes(result);
}

/// Tensors side by side in a new dimension: their channels have one factor.
std::optional<Channels> ChannelFlow::stacked(const Node* node) {
  const auto operands = tensors(node);
  const Channels* first = operands.empty() ? nullptr : of(operands.front());
  if (first == nullptr || first->rank == 0 || !first->shape.empty()) return std::nullopt;
  Channels result = *first;
  ++result.rank;
  const auto axis = from_end(whole_number(node, "dim"), result.rank);
  if (!axis) return std::nullopt;
  for (const Value* operand : operands) {
    const Channels* other = of(operand);
    if (other == nullptr || other->rank != first->rank || !unite_all(*first, *other)) return std::nullopt;
  }
  // The new dimension lies after the channels or in front of them.
  if (*axis >= first->axis) --result.axis;
  return of_new_sizes(result);
}

/// Of as many channels as nothing else has.
Channels ChannelFlow::with_new_channel_size(Channels channels) {
  if (channels.rank > 0)
    channels.sizes[static_cast<std::size_t>(channels.rank + channels.axis)] = next_size_++;
  return channels;
}

std::optional<Channels> ChannelFlow::sum(const Node* node) {
  const auto operands = tensors(node);
  const Channels* a = operands.size() == 2 ? of(operands[0]) : nullptr;
  const Channels* b = operands.size() == 2 ? of(operands[1]) : nullptr;
  if (a == nullptr || b == nullptr || !unite_all(*a, *b)) return std::nullopt;
  Channels result = *a;
  if (a->rank != b->rank) result.rank = 0;
  // Sizes of one are spread.
  return a->sizes == b->sizes ? std::optional(result) : of_new_sizes(result);
}

/// Of a value with factors and one without, a gate or a number. One channel could be spread over several.
std::optional<Channels> ChannelFlow::product(const Node* node) {
  const auto operands = tensors(node);
  const Channels* x = of(operands[0]);
  const bool divides = is_one_of(node, {"div"});
  const Value* other = operands.size() == 2 ? operands[1] : nullptr;
  if (x == nullptr && other != nullptr && !divides) {
    x = of(other);
    other = operands[0];
  }
  if (x == nullptr || x->is_spread || !x->shape.empty() || (other != nullptr && x->keys.size() < 2))
    return std::nullopt;
  if (divides && operators::argument_index(node, "rounding_mode")) return std::nullopt;
  Channels result = *x;
  if (other == nullptr) return result;
  if (const Channels* gate = of(other)) {
    bind(other);
    if (gate->rank != x->rank) result.rank = 0;
  } else {
    result.rank = 0;  // of a tensor that may have more dimensions
  }
  return of_new_sizes(result);
}

/// What other nodes read has no factors: what the graph returns, what is computed in another way.
void ChannelFlow::bind_unknown_uses() {
  const auto bind_users = [&](const Value* value) {
    for (const Node* user : ir::users(value)) {
      if (!known_.contains(user)) bind(value);
    }
  };
  for (const auto& [value, channels] : channels_) bind_users(value);
  for (const auto& [value, channels] : alike_) bind_users(value);
  for (const auto& [value, parts] : parts_) bind_users(value);
}

}  // namespace tsq::match
