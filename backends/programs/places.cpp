#include <algorithm>
#include <array>
#include <limits>

#include "backends/programs/operator_rows.h"

namespace tsq::programs {
namespace {

using ir::Node;
using ir::Value;
using runtime::Extent;
using runtime::Kind;
using runtime::Operation;

bool concat(const Call& call) {
  const auto axis = call.whole("dim");
  const auto inputs = call.program.tensors(call.node->input(0));
  if (!axis || !inputs || inputs->empty()) return false;
  const runtime::Value& first = call.program.type_of(inputs->front());
  const bool has_one_type = std::ranges::all_of(*inputs, [&](int input) {
    const runtime::Value& type = call.program.type_of(input);
    return type.dtype == first.dtype && type.scale == first.scale && type.zero_point == first.zero_point;
  });
  call.program.define(call.node->output(),
                      call.program.write({.kind = Kind::Concat, .inputs = *inputs, .axis = *axis},
                                         has_one_type ? first : runtime::Value{}));
  return true;
}

bool reshape(const Call& call) {
  const auto shape = call.program.extents(call.node->input(1));
  // A 0 that is written means another thing in a program.
  const bool fits = shape && std::ranges::find(*shape, Extent(0)) == shape->end();
  return fits && call.move({.kind = Kind::Reshape, .shape = *shape});
}
bool permute(const Call& call) {
  const auto order = call.shape("dims");
  return order && call.move({.kind = Kind::Permute, .order = *order});
}
bool transpose(const Call& call) {
  const auto first = call.whole("dim0");
  const auto second = call.whole("dim1");
  return first && second && call.move({.kind = Kind::Transpose, .axis = *first, .other_axis = *second});
}
bool flatten(const Call& call) {
  const auto first = call.whole("start_dim");
  const auto last = call.whole("end_dim");
  return first && last && call.move({.kind = Kind::Flatten, .axis = *first, .end_axis = *last});
}
bool unflatten(const Call& call) {
  const auto axis = call.whole("dim");
  const auto shape = axis ? call.program.extents(call.argument("sizes")) : std::nullopt;
  return shape && call.move({.kind = Kind::Unflatten, .axis = *axis, .shape = *shape});
}
bool expand(const Call& call) {
  const auto shape = call.program.extents(call.argument("size"));
  return shape && call.move({.kind = Kind::Expand, .shape = *shape});
}
bool unsqueeze(const Call& call) {
  const auto axis = call.whole("dim");
  return axis && call.move({.kind = Kind::Unsqueeze, .axis = *axis});
}
bool squeeze(const Call& call) {
  const auto axis = call.whole("dim");
  return axis && call.move({.kind = Kind::Squeeze, .axis = *axis});
}

Extent integer(const Call& call, runtime::IntegerKind kind, Extent left, Extent right) {
  return call.program.integer({.kind = kind, .left = left, .right = right});
}
Extent size_of(const Call& call, int input, std::int64_t axis) {
  return call.program.integer({.kind = runtime::IntegerKind::Size, .value = input, .axis = axis});
}

/// From `begin` to `end` of an axis.
int part(const Call& call, int input, std::int64_t axis, const Extent& begin, const Extent& end) {
  return call.program.write(
      {.kind = Kind::Slice, .inputs = {input}, .axis = axis, .begin = begin, .end = end},
      call.program.type_of(input));
}

bool slice(const Call& call) {
  const auto axis = call.whole("dim");
  const auto bound = [&](const char* name, std::int64_t standard) -> std::optional<Extent> {
    if (call.is_none(name)) return Extent(standard);
    return call.program.extent(call.argument(name));
  };
  const auto begin = bound("start", 0);
  const auto end = bound("end", std::numeric_limits<std::int64_t>::max());
  const auto step = call.whole("step");
  if (!axis || !begin || !end || !step || *step < 1) return false;
  return call.move({.kind = Kind::Slice, .axis = *axis, .begin = *begin, .end = *end, .step = *step});
}

/// Some places in a row, which have to be there.
bool narrow(const Call& call) {
  const auto axis = call.whole("dim");
  const auto length = call.program.extent(call.argument("length"));
  const auto start = length ? call.program.extent(call.argument("start")) : std::nullopt;
  const auto input = axis && start ? call.input() : std::nullopt;
  if (!input || (!length->is_computed() && length->number < 0)) return false;
  using enum runtime::IntegerKind;
  const Extent size = size_of(call, *input, *axis);
  const Extent begin = integer(call, Border, *start, size);
  const Extent end = integer(call, Border, integer(call, Add, begin, *length), size);
  return call.move({.kind = Kind::Slice, .axis = *axis, .begin = begin, .end = end});
}

/// One row of an axis, which is gone then. It has to be there.
int row(const Call& call, int input, std::int64_t axis, const Extent& index) {
  using enum runtime::IntegerKind;
  const Extent begin = integer(call, Index, index, size_of(call, input, axis));
  const int sliced = part(call, input, axis, begin, integer(call, Add, begin, 1));
  return call.program.write({.kind = Kind::Squeeze, .inputs = {sliced}, .axis = axis},
                            call.program.type_of(input));
}

/// The size of an axis, which is an error if it is larger than `most`.
Extent size_within(const Call& call, int input, std::int64_t axis, const Extent& most) {
  return integer(call, runtime::IntegerKind::Border, size_of(call, input, axis), most);
}

bool select(const Call& call) {
  const auto axis = call.whole("dim");
  const auto index = axis ? call.program.extent(call.argument("index")) : std::nullopt;
  const auto input = index ? call.input() : std::nullopt;
  if (!input) return false;
  call.program.define(call.node->output(), row(call, *input, *axis, *index));
  return true;
}

bool unbind(const Call& call) {
  const Node* list = call.unpacking();
  const auto axis = call.whole("dim");
  const auto input = call.input();
  if (list == nullptr || !axis || !input) return false;
  const auto count = static_cast<std::int64_t>(list->outputs().size());
  const Extent all = size_within(call, *input, *axis, count);
  for (std::int64_t i = 0; i < count; ++i) {
    // The last row is that of the size, so that no row is left over.
    const Extent index = i + 1 < count ? Extent(i)
                                       : integer(call, runtime::IntegerKind::Maximum, i,
                                                 integer(call, runtime::IntegerKind::Subtract, all, 1));
    call.program.define(list->output(static_cast<std::size_t>(i)), row(call, *input, *axis, index));
  }
  return true;
}

bool write_parts(const Call& call, const std::vector<std::pair<Extent, Extent>>& bounds) {
  const Node* list = call.unpacking();
  const auto axis = call.whole("dim");
  const auto input = call.input();
  if (list == nullptr || !axis || !input || list->outputs().size() != bounds.size()) return false;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    call.program.define(list->output(i), part(call, *input, *axis, bounds[i].first, bounds[i].second));
  }
  return true;
}

/// Parts of one length, the last perhaps shorter.
bool split(const Call& call) {
  const Node* list = call.unpacking();
  const auto length = call.whole("split_size");
  const auto axis = call.whole("dim");
  const auto input = length && axis ? call.input() : std::nullopt;
  if (list == nullptr || !input || *length < 1) return false;
  const auto count = static_cast<std::int64_t>(list->outputs().size());
  const Extent size = size_within(call, *input, *axis, count * *length);
  std::vector<std::pair<Extent, Extent>> bounds;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto begin = i * *length;
    // There is a first part of nothing, but no other.
    bounds.emplace_back(i == 0 ? Extent(0) : integer(call, runtime::IntegerKind::Index, begin, size),
                        begin + *length);
  }
  bounds.back().second = size;
  return write_parts(call, bounds);
}
bool split_with_sizes(const Call& call) {
  const auto lengths = call.shape("split_sizes");
  const auto axis = call.whole("dim");
  const auto input = lengths && axis ? call.input() : std::nullopt;
  if (!input || lengths->empty()) return false;
  std::vector<std::pair<Extent, Extent>> bounds;
  std::int64_t begin = 0;
  for (const std::int64_t length : *lengths) {
    bounds.emplace_back(begin, begin + length);
    begin += length;
  }
  // Together they are the axis, no more and no less.
  const Extent size = size_within(call, *input, *axis, begin);
  bounds.back().first = integer(call, runtime::IntegerKind::Subtract,
                                integer(call, runtime::IntegerKind::Border, begin, size), lengths->back());
  bounds.back().second = size;
  return write_parts(call, bounds);
}
/// As many parts as are wanted, of one length that is rounded up.
bool chunk(const Call& call) {
  const Node* list = call.unpacking();
  const auto axis = call.whole("dim");
  const auto input = call.input();
  if (list == nullptr || !axis || !input) return false;
  const auto count = static_cast<std::int64_t>(list->outputs().size());
  if (call.whole("chunks") != count) return false;
  using enum runtime::IntegerKind;
  const Extent size = size_of(call, *input, *axis);
  const Extent length = integer(call, FloorDivide, integer(call, Add, size, count - 1), count);
  std::vector<std::pair<Extent, Extent>> bounds;
  for (std::int64_t i = 0; i < count; ++i) {
    bounds.emplace_back(integer(call, Multiply, length, i), integer(call, Multiply, length, i + 1));
  }
  // Nothing has as many parts as are wanted, and what is too short for them fewer.
  bounds.back().first = integer(call, Index, bounds.back().first, integer(call, Maximum, size, 1));
  return write_parts(call, bounds);
}

/// [C r r, H, W] → [C, H r, W r]: what the two r are of moves after H and W.
bool pixel_shuffle(const Call& call) {
  const auto factor = call.whole("upscale_factor");
  const auto input = factor ? call.input() : std::nullopt;
  if (!input) return false;
  const runtime::Value& type = call.program.type_of(*input);
  int moved = *input;
  const auto move = [&](Operation operation) {
    operation.inputs = {moved};
    moved = call.program.write(std::move(operation), type);
  };
  move({.kind = Kind::Unflatten, .axis = -3, .shape = {Extent(-1), Extent(*factor), Extent(*factor)}});
  for (const auto& [axis, other] : {std::pair(-4, -2), std::pair(-3, -1), std::pair(-3, -2)})
    move({.kind = Kind::Transpose, .axis = axis, .other_axis = other});
  move({.kind = Kind::Flatten, .axis = -2, .end_axis = -1});
  move({.kind = Kind::Flatten, .axis = -3, .end_axis = -2});
  call.program.define(call.node->output(), moved);
  return true;
}

/// One half times the sigmoid of the other. An odd size is refused, as halves of two sizes.
bool glu(const Call& call) {
  const auto axis = call.whole("dim");
  const auto input = axis ? call.input() : std::nullopt;
  if (!input) return false;
  const Extent size = size_of(call, *input, *axis);
  const Extent half = integer(call, runtime::IntegerKind::FloorDivide, size, 2);
  const int values = part(call, *input, *axis, Extent(0), half);
  const int gates = part(call, *input, *axis, half, size);
  const int opened = call.program.write(
      {.kind = Kind::Activation, .inputs = {gates}, .post_ops = {{.kind = runtime::PostOpKind::Sigmoid}}});
  call.program.define(call.node->output(),
                      call.program.write({.kind = Kind::Mul, .inputs = {values, opened}}));
  return true;
}

bool resize(const Call& call, Kind kind) {
  const Value* size = call.argument("output_size");
  const auto factors = call.constant("scale_factors");
  if (call.argument("align_corners") != nullptr && call.flag("align_corners") != false) return false;
  Operation operation{.kind = kind};
  if (size != nullptr && !call.is_none("output_size")) {
    const auto extents = call.program.extents(size);
    if (!extents) return false;
    operation.size = *extents;
  } else if (factors && factors->isDoubleList()) {
    operation.scale_factors = factors->toDoubleVector();
  } else {
    return false;
  }
  return kind == Kind::ResizeNearest ? call.move(std::move(operation)) : call.write(std::move(operation));
}
bool resize_nearest(const Call& call) { return resize(call, Kind::ResizeNearest); }
bool resize_bilinear(const Call& call) { return resize(call, Kind::ResizeBilinear); }

constexpr std::array kPlaceRows{
    OperatorRow{"aten::cat", concat},
    OperatorRow{"aten::reshape", reshape},
    OperatorRow{"aten::view", reshape},
    OperatorRow{"aten::permute", permute},
    OperatorRow{"aten::transpose", transpose},
    OperatorRow{"aten::flatten", flatten},
    OperatorRow{"aten::unflatten", unflatten},
    OperatorRow{"aten::expand", expand},
    OperatorRow{"aten::unsqueeze", unsqueeze},
    OperatorRow{"aten::squeeze", squeeze},
    OperatorRow{"aten::slice", slice},
    OperatorRow{"aten::select", select},
    OperatorRow{"aten::narrow", narrow},
    OperatorRow{"aten::unbind", unbind},
    OperatorRow{"aten::split", split},
    OperatorRow{"aten::split", split_with_sizes},
    OperatorRow{"aten::split_with_sizes", split_with_sizes},
    OperatorRow{"aten::chunk", chunk},
    OperatorRow{"aten::pixel_shuffle", pixel_shuffle},
    OperatorRow{"aten::glu", glu},
    OperatorRow{"aten::upsample_nearest2d", resize_nearest},
    OperatorRow{"aten::upsample_bilinear2d", resize_bilinear},
};

}  // namespace

std::span<const OperatorRow> place_rows() { return kPlaceRows; }

}  // namespace tsq::programs
