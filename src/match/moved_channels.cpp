// What operators that move values, or compute each channel by itself, make of the channels of what they read.

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "match/channel_flow.h"
#include "match/channel_scaling.h"
#include "operators/arguments.h"
#include "operators/images/zero_padding.h"
#include "operators/traits.h"

namespace tsq::match {

using ir::Model;
using ir::Node;
using ir::Value;

namespace {

std::string_view name_of(const Model& model, const Node* node) {
  if (ir::is_module_call(node)) return ir::call_of(model, node).type.name;
  if (node->kind() != c10::prim::CallFunction) return node->kind().toQualString();
  const std::vector<Symbol> targets = ir::targets(model, node);
  return targets.empty() ? std::string_view() : targets.front().name;
}

}  // namespace

/// What a node of one tensor makes of the channels of its first operand; empty where it hands no factor on.
std::optional<Channels> ChannelFlow::result_of(Node* node, const Channels& x) {
  const auto* const row = operators::traits_of(model_, node);
  const bool is_elementwise = ir::is_observer(node) || commutes_with_scaling(model_, node) ||
                              is_leaky(model_, node) || operators::has(row, operators::IsIdentity) ||
                              is_one_of(node, {"contiguous", "clone", "alias", "detach", "neg", "abs"});
  if (is_elementwise) return x;
  if (x.rank > 0 && is_one_of(node, {"transpose", "permute"})) return permuted(node, x);
  if (x.rank > 0 && is_one_of(node, {"view", "reshape"})) {
    const auto by_parts = viewed(node, x);
    return by_parts ? by_parts : viewed_after(node, x);
  }
  if (!x.shape.empty()) return std::nullopt;
  if (is_one_of(node, {"channel_shuffle"})) return pixels(node, x);
  if (is_one_of(node, {"flip", "roll"})) return moves_other_dims(node, x) ? std::optional(x) : std::nullopt;
  return of_new_sizes(resized(node, x));
}

/// The same of operators whose results may have other sizes.
std::optional<Channels> ChannelFlow::resized(Node* node, const Channels& x) {
  Channels result = x;
  const auto position = x.rank + x.axis;  // counted from the first dimension, where the rank is known
  const auto dim = [&](const char* name) { return from_end(whole_number(node, name), x.rank); };
  const auto count = static_cast<int64_t>(x.keys.size());

  if (is_one_of(node, {"max_pool1d",
                       "max_pool2d",
                       "max_pool3d",
                       "avg_pool1d",
                       "avg_pool2d",
                       "avg_pool3d",
                       "adaptive_avg_pool1d",
                       "adaptive_avg_pool2d",
                       "adaptive_avg_pool3d",
                       "adaptive_max_pool1d",
                       "adaptive_max_pool2d",
                       "adaptive_max_pool3d",
                       "upsample_nearest1d",
                       "upsample_nearest2d",
                       "upsample_nearest3d",
                       "_upsample_nearest_exact1d",
                       "_upsample_nearest_exact2d",
                       "_upsample_nearest_exact3d",
                       "upsample_linear1d",
                       "upsample_bilinear2d",
                       "upsample_trilinear3d",
                       "upsample_bicubic2d",
                       "reflection_pad1d",
                       "reflection_pad2d",
                       "reflection_pad3d",
                       "replication_pad1d",
                       "replication_pad2d",
                       "replication_pad3d"})) {
    const int64_t dims = dims_in_name(name_of(model_, node));
    return dims > 0 && -x.axis > dims ? std::optional(x) : std::nullopt;
  }
  if (is_one_of(node, {"pad", "constant_pad_nd"})) {
    const auto dims = static_cast<std::size_t>(-x.axis - 1);
    return dims > 0 && (operators::zero_padding(model_, node, dims) || repeats_values(node, dims))
               ? std::optional(x)
               : std::nullopt;
  }
  if (is_one_of(node, {"interpolate", "upsample"}))
    return x.rank > 2 && position == 1 ? std::optional(x) : std::nullopt;
  if (is_one_of(node, {"mean", "sum", "amax", "amin"})) return without_last_dims(node, x);
  if (is_one_of(node, {"pixel_shuffle", "pixel_unshuffle"})) return pixels(node, x);
  if (is_one_of(node, {"index_select", "repeat_interleave"})) {
    const auto axis = dim("dim");
    return axis && *axis != x.axis ? std::optional(x) : std::nullopt;
  }
  if (is_one_of(node, {"select"})) {
    const auto axis = dim("dim");
    return axis && *axis != x.axis ? std::optional(without_dim(x, *axis)) : std::nullopt;
  }

  if (is_one_of(node, {"slice", "narrow"})) {
    const auto axis = dim("dim");
    if (!axis) return std::nullopt;
    if (*axis != x.axis) return x;
    if (x.is_spread) return std::nullopt;
    const auto start_value = constant(node, "start");
    if (!start_value) return std::nullopt;
    int64_t start = start_value->isInt() ? start_value->toInt() : 0;
    int64_t end = count;
    int64_t step = 1;
    if (is_one_of(node, {"narrow"})) {
      const auto length = whole_number(node, "length");
      if (!length || !start_value->isInt()) return std::nullopt;
      start = start < 0 ? start + count : start;
      end = start + *length;
    } else {
      const auto end_value = constant(node, "end");
      const auto step_value = whole_number(node, "step");
      if (!end_value || !step_value || *step_value < 1) return std::nullopt;
      if (end_value->isInt()) end = end_value->toInt();
      step = *step_value;
      start = std::clamp<int64_t>(start < 0 ? start + count : start, 0, count);
      end = std::clamp<int64_t>(end < 0 ? end + count : end, 0, count);
    }
    if (start < 0 || end > count || start >= end) return std::nullopt;
    result.keys = some_of(x.keys, start, end, step);
    return result;
  }
  if (x.rank == 0) return std::nullopt;  // all that follow count dimensions

  if (is_one_of(node, {"flatten"})) {
    const auto start = dim("start_dim");
    const auto end = dim("end_dim");
    if (!start || !end || *start > *end) return std::nullopt;
    const int64_t first = x.rank + *start;
    const int64_t last = x.rank + *end;
    if (position > first && position <= last) return std::nullopt;
    result.rank = x.rank - (last - first);
    const int64_t place = position > last ? position - (last - first) : position;
    result.axis = place - result.rank;
    result.is_spread = x.is_spread || (position == first && last > first);
    return result;
  }
  if (is_one_of(node, {"squeeze", "unsqueeze"})) {
    const bool adds = is_one_of(node, {"unsqueeze"});
    const auto given = whole_number(node, "dim");
    if (!given) return std::nullopt;
    const int64_t rank = adds ? x.rank + 1 : x.rank;
    const int64_t place = *given < 0 ? *given + rank : *given;
    // Squeezing a dimension of more than one value does nothing: whether it does is not known.
    if (!adds || place < 0 || place > x.rank) return std::nullopt;
    result.rank = rank;
    result.axis = (place <= position ? position + 1 : position) - rank;
    return result;
  }
  if (is_one_of(node, {"expand"})) {
    const auto sizes = numbers(node, "size");
    const auto length = sizes ? static_cast<int64_t>(sizes->size()) : 0;
    // One channel could be spread over several.
    if (length < x.rank || count < 2) return std::nullopt;
    result.rank = length;
    return result;
  }
  if (is_one_of(node, {"repeat", "tile"})) {
    const auto repeats = numbers(node, is_one_of(node, {"tile"}) ? "dims" : "repeats");
    const auto length = repeats ? static_cast<int64_t>(repeats->size()) : 0;
    if (length < x.rank || x.is_spread) return std::nullopt;
    result.rank = length;
    result.keys.clear();
    const int64_t times = (*repeats)[static_cast<std::size_t>(length + x.axis)];
    for (int64_t i = 0; i < times; ++i) result.keys.insert(result.keys.end(), x.keys.begin(), x.keys.end());
    return times > 0 ? std::optional(result) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Channels> ChannelFlow::permuted(const Node* node, const Channels& x) {
  std::vector<int64_t> order;  // the dimension of x in each place of the result, from the first one
  for (int64_t i = 0; i < x.rank; ++i) order.push_back(i);
  const auto from_first = [&](int64_t dim) { return dim < 0 ? dim + x.rank : dim; };
  if (is_one_of(node, {"transpose"})) {
    const int64_t one = from_first(whole_number(node, "dim0").value_or(x.rank));
    const int64_t other = from_first(whole_number(node, "dim1").value_or(x.rank));
    if (one < 0 || other < 0 || std::max(one, other) >= x.rank) return std::nullopt;
    std::swap(order[static_cast<std::size_t>(one)], order[static_cast<std::size_t>(other)]);
  } else {
    const auto dims = numbers(node, "dims");
    if (!dims || static_cast<int64_t>(dims->size()) != x.rank) return std::nullopt;
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = from_first((*dims)[i]);
  }
  const int64_t first = x.rank + x.axis;
  const int64_t count = x.shape.empty() ? 1 : static_cast<int64_t>(x.shape.size());
  Channels result = x;
  result.shape.clear();
  std::vector<int64_t> inner;  // the order of the dimensions of channels among themselves
  for (int64_t place = 0; place < x.rank; ++place) {
    const int64_t dim = order[static_cast<std::size_t>(place)];
    result.sizes[static_cast<std::size_t>(place)] = x.sizes[static_cast<std::size_t>(dim)];
    if (dim < first || dim >= first + count) continue;
    if (inner.empty()) result.axis = place - x.rank;
    if (place - x.rank != result.axis + static_cast<int64_t>(inner.size())) return std::nullopt;
    inner.push_back(dim - first);
  }
  if (x.shape.empty()) return result;
  for (const int64_t dim : inner) result.shape.push_back(x.shape[static_cast<std::size_t>(dim)]);
  const at::Tensor places =
      at::arange(static_cast<int64_t>(x.keys.size())).reshape(x.shape).permute(inner).flatten().contiguous();
  for (std::size_t i = 0; i < x.keys.size(); ++i)
    result.keys[i] = x.keys[static_cast<std::size_t>(places.const_data_ptr<int64_t>()[i])];
  return result;
}

/// The tensor whose size a number is, and in which dimension.
std::pair<const Channels*, int64_t> ChannelFlow::measured(const Value* number) const {
  const Node* node = number->node();
  std::optional<int64_t> dim;
  if (node->kind() == c10::prim::ListUnpack) {  // b, c, h, w = x.size()
    dim = static_cast<int64_t>(number->offset());
    node = node->input(0)->node();
  } else if (node->inputs().size() == 2) {
    dim = ir::whole_number_constant(node->input(1));
  }
  if (node->kind() == c10::aten::__getitem__) node = node->input(0)->node();
  const Channels* channels = node->kind() == c10::aten::size && dim ? of(node->input(0)) : nullptr;
  if (channels == nullptr || channels->rank == 0) return {nullptr, 0};
  const int64_t place = *dim < 0 ? *dim + channels->rank : *dim;
  if (place < 0 || place >= channels->rank) return {nullptr, 0};
  return {channels, place};
}

bool ChannelFlow::is_size(const Value* number, int size) const {
  const auto [channels, place] = measured(number);
  return channels != nullptr && channels->sizes[static_cast<std::size_t>(place)] == size;
}

/// A constant, a number of channels, or a product or quotient of such.
std::optional<int64_t> ChannelFlow::count_of(const Value* number) const {
  if (const auto constant = ir::whole_number_constant(number)) return constant;
  const Node* node = number->node();
  if (node->kind() == c10::aten::floordiv || node->kind() == c10::aten::mul) {
    const auto left = count_of(node->input(0));
    const auto right = count_of(node->input(1));
    if (!left || !right || *left < 1 || *right < 1) return std::nullopt;
    return node->kind() == c10::aten::mul ? *left * *right : *left / *right;
  }
  const auto [channels, place] = measured(number);
  const bool counts_channels = channels != nullptr && !channels->is_spread && channels->shape.empty() &&
                               place == channels->rank + channels->axis;
  return counts_channels ? std::optional(static_cast<int64_t>(channels->keys.size())) : std::nullopt;
}

/// Views that leave the channels where they are, and divide what follows them in any way: view(b, c, h * w).
std::optional<Channels> ChannelFlow::viewed_after(const Node* node, const Channels& x) {
  const Node* sizes = node->inputs().size() == 2 ? node->input(1)->node() : nullptr;
  const auto before = static_cast<std::size_t>(x.rank + x.axis);
  if (sizes == nullptr || sizes->kind() != c10::prim::ListConstruct || x.is_spread || !x.shape.empty() ||
      sizes->inputs().size() <= before || count_of(sizes->input(before)) != std::ssize(x.keys))
    return std::nullopt;
  for (std::size_t i = 0; i < before; ++i) {
    if (!is_size(sizes->input(i), x.sizes[i])) return std::nullopt;
  }
  Channels result = x;
  result.rank = std::ssize(sizes->inputs());
  result.axis = static_cast<int64_t>(before) - result.rank;
  result.sizes.resize(before + 1);
  while (std::ssize(result.sizes) < result.rank) result.sizes.push_back(next_size_++);
  return result;
}

/// Views that take the channels' dimension apart or put it together, and those that flatten what follows the
/// batch: view(b, 2, c / 2, h, w), view(b, -1).
std::optional<Channels> ChannelFlow::viewed(const Node* node, const Channels& x) {
  const Node* sizes = node->inputs().size() == 2 ? node->input(1)->node() : nullptr;
  if (sizes == nullptr || sizes->kind() != c10::prim::ListConstruct || x.is_spread) return std::nullopt;
  const auto elements = sizes->inputs();
  const auto length = static_cast<int64_t>(elements.size());
  const int64_t before = x.rank + x.axis;
  const int64_t after = -x.axis - (x.shape.empty() ? 1 : static_cast<int64_t>(x.shape.size()));
  const auto number = [&](int64_t place) {
    return ir::whole_number_constant(elements[static_cast<std::size_t>(place)]);
  };
  bool has_rest = false;  // one -1 takes what the others leave
  const auto keeps = [&](int64_t place, int64_t dim) {
    if (number(place) == -1) return !std::exchange(has_rest, true);
    return is_size(elements[static_cast<std::size_t>(place)], x.sizes[static_cast<std::size_t>(dim)]);
  };
  for (int64_t i = 0; i < before; ++i) {
    if (i >= length || !keeps(i, i)) return std::nullopt;
  }
  Channels result = x;
  result.rank = length;
  result.axis = before - length;
  result.shape.clear();
  if (length == before + 1 && after > 0 && x.shape.empty() && number(before) == -1 && !has_rest) {
    result.is_spread = true;
    result.sizes.resize(static_cast<std::size_t>(length));
    result.sizes.back() = next_size_++;
    return result;
  }
  const int64_t parts = length - before - after;
  if (parts < 1) return std::nullopt;
  for (int64_t i = 0; i < after; ++i) {
    if (!keeps(length - after + i, x.rank - after + i)) return std::nullopt;
  }
  const auto count = static_cast<int64_t>(x.keys.size());
  int64_t product = 1;
  std::optional<std::size_t> rest;
  for (int64_t i = before; i < before + parts; ++i) {
    const auto size = count_of(elements[static_cast<std::size_t>(i)]);
    if (!size || *size == 0 || (*size < 0 && std::exchange(has_rest, true))) return std::nullopt;
    if (*size < 0) rest = result.shape.size();
    product *= std::max<int64_t>(*size, 1);
    result.shape.push_back(*size);
  }
  if (rest && count % product == 0) {
    result.shape[*rest] = count / product;
    product = count;
  }
  if (product != count) return std::nullopt;
  result.sizes.assign(x.sizes.begin(), x.sizes.begin() + before);
  for (int64_t i = 0; i < parts; ++i) result.sizes.push_back(next_size_++);
  result.sizes.insert(result.sizes.end(), x.sizes.end() - after, x.sizes.end());
  if (parts == 1) result.shape.clear();
  return result;
}

/// Whether an operator turns values around in dimensions that it names, and the channels' is none of them.
bool ChannelFlow::moves_other_dims(const Node* node, const Channels& x) const {
  const auto dims = numbers(node, "dims");
  return dims && !dims->empty() && std::ranges::none_of(*dims, [&](int64_t each) {
           const auto axis = from_end(each, x.rank);
           return !axis || *axis == x.axis;
         });
}

/// Whether a pad repeats values of the tensor, in its last `dims` dimensions at the most.
bool ChannelFlow::repeats_values(const Node* node, std::size_t dims) const {
  const auto mode = constant(node, "mode");
  const auto pad = numbers(node, "pad");
  return mode && mode->isString() && mode->toStringRef() != "constant" && pad && pad->size() <= 2 * dims;
}

/// Means and the like over dimensions without channels.
std::optional<Channels> ChannelFlow::without_last_dims(const Node* node, const Channels& x) {
  const auto dims = numbers(node, "dim");
  const auto keeps = constant(node, "keepdim");
  if (!dims || dims->empty() || !keeps || !keeps->isBool()) return std::nullopt;
  Channels result = x;
  int64_t after = 0;
  for (const int64_t each : *dims) {
    const auto dim = from_end(each, x.rank);
    if (!dim || *dim == x.axis) return std::nullopt;
    after += *dim > x.axis ? 1 : 0;
  }
  if (keeps->toBool()) return result;
  result.rank = x.rank == 0 ? 0 : x.rank - static_cast<int64_t>(dims->size());
  result.axis = x.axis + after;
  return result;
}

std::optional<Channels> ChannelFlow::pixels(const Node* node, const Channels& x) {
  constexpr int64_t kOfImages = -3;
  Channels result = x;
  const auto count = static_cast<int64_t>(x.keys.size());
  if (is_one_of(node, {"channel_shuffle"})) {
    const auto groups = whole_number(node, "groups");
    if (!groups || *groups < 1 || count % *groups != 0 || x.rank < 3 || x.rank + x.axis != 1)
      return std::nullopt;
    result.keys.clear();
    for (int64_t i = 0; i < count / *groups; ++i) {
      for (int64_t group = 0; group < *groups; ++group)
        result.keys.push_back(x.keys[static_cast<std::size_t>(group * (count / *groups) + i)]);
    }
    return result;
  }
  const bool gathers = is_one_of(node, {"pixel_shuffle"});
  const auto factor = whole_number(node, gathers ? "upscale_factor" : "downscale_factor");
  if (!factor || x.axis != kOfImages) return std::nullopt;
  const int64_t square = *factor * *factor;
  if (square < 1 || (gathers && count % square != 0)) return std::nullopt;
  result.keys.clear();
  for (int64_t i = 0; i < count; ++i) {
    const int key = x.keys[static_cast<std::size_t>(i)];
    if (!gathers) {
      result.keys.insert(result.keys.end(), static_cast<std::size_t>(square), key);
    } else if (i % square == 0) {
      result.keys.push_back(key);
    } else {
      unite(result.keys.back(), key);
    }
  }
  return result;
}

}  // namespace tsq::match
