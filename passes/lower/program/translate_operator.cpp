#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/arguments.h"
#include "passes/lower/program/translations.h"

namespace tsq::passes {
namespace {

using ir::Node;
using ir::Value;
using runtime::Extent;
using runtime::Kind;
using runtime::Operation;
using runtime::PostOp;
using runtime::PostOpKind;

/// An operator as a translation sees it.
struct Call {
  ProgramBuilder& program;
  const Node* node;

  [[nodiscard]] const Value* argument(const std::string& name) const {
    return operators::argument_named(node, name);
  }
  [[nodiscard]] std::optional<c10::IValue> constant(const std::string& name) const {
    const Value* value = argument(name);
    return value == nullptr ? std::nullopt : program.constant(value);
  }
  [[nodiscard]] bool is_none(const std::string& name) const {
    const auto value = constant(name);
    return argument(name) == nullptr || (value && value->isNone());
  }
  [[nodiscard]] std::optional<double> number(const std::string& name) const {
    const auto value = constant(name);
    return value && value->isScalar() ? std::optional(value->toScalar().toDouble()) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::int64_t> whole(const std::string& name) const {
    const auto value = constant(name);
    return value && value->isInt() ? std::optional(value->toInt()) : std::nullopt;
  }
  [[nodiscard]] std::optional<bool> flag(const std::string& name) const {
    const auto value = constant(name);
    return value && value->isBool() ? std::optional(value->toBool()) : std::nullopt;
  }
  [[nodiscard]] std::optional<runtime::Shape> shape(const std::string& name) const {
    const auto value = constant(name);
    return value && value->isIntList() ? std::optional(value->toIntVector()) : std::nullopt;
  }
  [[nodiscard]] std::optional<int> input(std::size_t index = 0) const {
    return index < node->inputs().size() ? program.tensor(node->input(index)) : std::nullopt;
  }
  /// The operation on the node's first inputs, as the node's output.
  [[nodiscard]] bool write(Operation operation, std::size_t inputs = 1) const {
    for (std::size_t i = 0; i < inputs; ++i) {
      const auto read = input(i);
      if (!read) return false;
      operation.inputs.push_back(*read);
    }
    program.define(node->output(), program.write(std::move(operation)));
    return true;
  }
  /// The same where it only moves values about or chooses some: codes stay what they are.
  [[nodiscard]] bool move(Operation operation) const {
    const auto read = input();
    if (!read) return false;
    operation.inputs = {*read};
    program.define(node->output(), program.write(std::move(operation), program.type_of(*read)));
    return true;
  }
  [[nodiscard]] bool activation(PostOp function) const {
    return write({.kind = Kind::Activation, .post_ops = {function}});
  }
};

// Functions of one tensor.

template <PostOpKind Function>
bool function(const Call& call) {
  return call.activation({.kind = Function});
}
bool gelu(const Call& call) {
  const auto approximate = call.constant("approximate");
  const bool is_tanh = approximate && approximate->isString() && approximate->toStringRef() == "tanh";
  return call.activation({.kind = is_tanh ? PostOpKind::GeluTanh : PostOpKind::Gelu});
}
bool elu(const Call& call) {
  const auto alpha = call.number("alpha");
  return alpha && call.number("scale") == 1 && call.number("input_scale") == 1 &&
         call.activation({.kind = PostOpKind::Elu, .alpha = *alpha});
}
bool leaky_relu(const Call& call) {
  const auto slope = call.number("negative_slope");
  return slope && call.activation({.kind = PostOpKind::LeakyRelu, .alpha = *slope});
}
bool clamp_between(const Call& call, const std::string& lowest, const std::string& highest) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const auto low = call.is_none(lowest) ? std::optional(-kLargest) : call.number(lowest);
  const auto high = call.is_none(highest) ? std::optional(kLargest) : call.number(highest);
  return low && high && call.activation({.kind = PostOpKind::Clamp, .alpha = *low, .beta = *high});
}
bool clamp(const Call& call) { return clamp_between(call, "min", "max"); }
bool hardtanh(const Call& call) { return clamp_between(call, "min_val", "max_val"); }
bool relu6(const Call& call) { return call.activation({.kind = PostOpKind::Clamp, .alpha = 0, .beta = 6}); }

/// The tensor itself.
bool same(const Call& call) {
  const auto input = call.input();
  if (input) call.program.define(call.node->output(), *input);
  return input.has_value();
}
bool dropout(const Call& call) { return call.flag("train") == false && same(call); }

// Arithmetic.

/// A tensor, or a number as a tensor of one element.
std::optional<int> operand(const Call& call, std::size_t index) {
  const Value* value = call.node->input(index);
  const auto number = call.program.constant(value);
  if (number && number->isScalar())
    return call.program.constant_value(at::scalar_tensor(number->toScalar().toDouble(), at::kFloat));
  return call.input(index);
}

bool arithmetic(const Call& call, Kind kind, bool swapped = false) {
  if (call.argument("alpha") != nullptr && call.number("alpha") != 1) return false;
  if (call.argument("rounding_mode") != nullptr && !call.is_none("rounding_mode")) return false;
  auto left = operand(call, 0);
  auto right = operand(call, 1);
  if (!left || !right) return false;
  if (swapped) std::swap(left, right);
  call.program.define(call.node->output(), call.program.write({.kind = kind, .inputs = {*left, *right}}));
  return true;
}
bool add(const Call& call) { return arithmetic(call, Kind::Add); }
bool mul(const Call& call) { return arithmetic(call, Kind::Mul); }

bool matmul(const Call& call) { return call.write({.kind = Kind::Matmul}, 2); }

// Normalization.

/// A parameter of a normalization: an index among the constants; empty for None.
struct Parameter {
  bool is_known{false};
  std::optional<int> index{};
};
Parameter parameter(const Call& call, const std::string& name) {
  const auto value = call.constant(name);
  if (!value) return {};
  if (value->isNone()) return {.is_known = true};
  if (!value->isTensor() || value->toTensor().scalar_type() != at::kFloat) return {};
  return {.is_known = true, .index = call.program.add_constant(value->toTensor())};
}

bool layer_norm(const Call& call) {
  const auto shape = call.shape("normalized_shape");
  const auto epsilon = call.number("eps");
  const Parameter weight = parameter(call, "weight");
  const Parameter bias = parameter(call, "bias");
  if (!shape || shape->size() != 1 || !epsilon || !weight.is_known || !bias.is_known) return false;
  return call.write(
      {.kind = Kind::LayerNorm, .weight = weight.index, .bias = bias.index, .epsilon = *epsilon});
}

bool softmax(const Call& call) {
  const auto axis = call.whole("dim");
  return axis && call.is_none("dtype") && call.write({.kind = Kind::Softmax, .axis = *axis});
}

// Windows.

bool max_pool(const Call& call) {
  const auto kernel = call.shape("kernel_size");
  auto stride = call.shape("stride");
  const auto padding = call.shape("padding");
  const auto dilation = call.shape("dilation");
  const auto ceil_mode = call.flag("ceil_mode");
  if (!kernel || !stride || !padding || !dilation || !ceil_mode) return false;
  return call.move({.kind = Kind::MaxPool,
                    .kernel = *kernel,
                    .stride = stride->empty() ? *kernel : *stride,
                    .padding_begin = *padding,
                    .padding_end = *padding,
                    .dilation = *dilation,
                    .ceil_mode = *ceil_mode});
}

bool avg_pool(const Call& call) {
  const auto kernel = call.shape("kernel_size");
  const auto stride = call.shape("stride");
  const auto padding = call.shape("padding");
  const auto counts_padding = call.flag("count_include_pad");
  if (!kernel || !stride || !padding || !counts_padding || call.flag("ceil_mode") != false) return false;
  if (call.argument("divisor_override") != nullptr && !call.is_none("divisor_override")) return false;
  return call.write({.kind = Kind::AvgPool,
                     .kernel = *kernel,
                     .stride = stride->empty() ? *kernel : *stride,
                     .padding_begin = *padding,
                     .padding_end = *padding,
                     .count_include_pad = *counts_padding});
}

bool adaptive_avg_pool(const Call& call) {
  const auto size = call.shape("output_size");
  const bool is_whole = size && std::ranges::all_of(*size, [](std::int64_t length) { return length == 1; });
  return is_whole && call.write({.kind = Kind::GlobalAvgPool});
}

// Places.

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
  return shape && call.move({.kind = Kind::Reshape, .shape = *shape});
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
bool unsqueeze(const Call& call) {
  const auto axis = call.whole("dim");
  return axis && call.move({.kind = Kind::Unsqueeze, .axis = *axis});
}
bool squeeze(const Call& call) {
  const auto axis = call.whole("dim");
  return axis && call.move({.kind = Kind::Squeeze, .axis = *axis});
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
  if (!axis || !begin || !end || call.whole("step") != 1) return false;
  return call.move({.kind = Kind::Slice, .axis = *axis, .begin = *begin, .end = *end});
}

/// One row of an axis, which is gone then.
int row(const Call& call, int input, std::int64_t axis, std::int64_t index) {
  const std::int64_t end = index == -1 ? std::numeric_limits<std::int64_t>::max() : index + 1;
  const int sliced = part(call, input, axis, Extent(index), Extent(end));
  return call.program.write({.kind = Kind::Squeeze, .inputs = {sliced}, .axis = axis},
                            call.program.type_of(input));
}

bool select(const Call& call) {
  const auto axis = call.whole("dim");
  const auto index = call.whole("index");
  const auto input = call.input();
  if (!axis || !index || !input) return false;
  call.program.define(call.node->output(), row(call, *input, *axis, *index));
  return true;
}

/// The one node that takes a list of tensors apart; null where others read the list.
const Node* unpacking(const Node* node) {
  const auto& uses = node->output()->uses();
  const bool is_unpacked = uses.size() == 1 && uses.front().user->kind() == c10::prim::ListUnpack;
  return is_unpacked ? uses.front().user : nullptr;
}

bool unbind(const Call& call) {
  const Node* list = unpacking(call.node);
  const auto axis = call.whole("dim");
  const auto input = call.input();
  if (list == nullptr || !axis || !input) return false;
  for (std::size_t i = 0; i < list->outputs().size(); ++i)
    call.program.define(list->output(i), row(call, *input, *axis, static_cast<std::int64_t>(i)));
  return true;
}

bool write_parts(const Call& call, const std::vector<std::pair<Extent, Extent>>& bounds) {
  const Node* list = unpacking(call.node);
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
  const Node* list = unpacking(call.node);
  const auto length = call.whole("split_size");
  if (list == nullptr || !length) return false;
  std::vector<std::pair<Extent, Extent>> bounds;
  for (std::size_t i = 0; i < list->outputs().size(); ++i) {
    const auto begin = static_cast<std::int64_t>(i) * *length;
    bounds.emplace_back(begin, begin + *length);
  }
  return write_parts(call, bounds);
}
bool split_with_sizes(const Call& call) {
  const auto lengths = call.shape("split_sizes");
  if (!lengths) return false;
  std::vector<std::pair<Extent, Extent>> bounds;
  std::int64_t begin = 0;
  for (const std::int64_t length : *lengths) {
    bounds.emplace_back(begin, begin + length);
    begin += length;
  }
  return write_parts(call, bounds);
}
/// As many parts as are wanted, of one length that is rounded up.
bool chunk(const Call& call) {
  const Node* list = unpacking(call.node);
  const auto axis = call.whole("dim");
  const auto input = call.input();
  if (list == nullptr || !axis || !input) return false;
  const auto count = static_cast<std::int64_t>(list->outputs().size());
  if (call.whole("chunks") != count) return false;
  const auto integer = [&](runtime::IntegerKind kind, Extent left, Extent right) {
    return call.program.integer({.kind = kind, .left = left, .right = right});
  };
  using enum runtime::IntegerKind;
  const Extent size = call.program.integer({.kind = Size, .value = *input, .axis = *axis});
  const Extent length = integer(FloorDivide, integer(Add, size, count - 1), count);
  std::vector<std::pair<Extent, Extent>> bounds;
  for (std::int64_t i = 0; i < count; ++i) {
    bounds.emplace_back(integer(Multiply, length, i), integer(Multiply, length, i + 1));
  }
  return write_parts(call, bounds);
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

// Numbers of shapes.

bool sizes(const Call& call) {
  const auto input = call.input();
  if (!input) return false;
  if (const Value* axis = call.argument("dim"); axis != nullptr) {
    const auto number = call.whole("dim");
    if (!number) return false;
    call.program.define(
        call.node->output(),
        call.program.integer({.kind = runtime::IntegerKind::Size, .value = *input, .axis = *number}));
    return true;
  }
  const Node* list = unpacking(call.node);
  if (list == nullptr) return false;
  for (std::size_t i = 0; i < list->outputs().size(); ++i) {
    call.program.define(list->output(i), call.program.integer({.kind = runtime::IntegerKind::Size,
                                                               .value = *input,
                                                               .axis = static_cast<std::int64_t>(i)}));
  }
  return true;
}

template <runtime::IntegerKind Function>
bool integers(const Call& call) {
  if (call.node->output()->type()->kind() != c10::TypeKind::IntType) return false;
  const auto left = call.program.extent(call.node->input(0));
  const auto right = left ? call.program.extent(call.node->input(1)) : std::nullopt;
  if (!left || !right) return false;
  call.program.define(call.node->output(),
                      call.program.integer({.kind = Function, .left = *left, .right = *right}));
  return true;
}

struct Row {
  std::string_view name;
  bool (*translate)(const Call& call);
};

/// Of ATen's operators. Those with two meanings have a row for each; the first that does not decline is
/// taken.
constexpr std::array kRows{
    Row{"aten::relu", function<PostOpKind::Relu>},
    Row{"aten::hardswish", function<PostOpKind::Hardswish>},
    Row{"aten::hardsigmoid", function<PostOpKind::Hardsigmoid>},
    Row{"aten::sigmoid", function<PostOpKind::Sigmoid>},
    Row{"aten::silu", function<PostOpKind::Silu>},
    Row{"aten::tanh", function<PostOpKind::Tanh>},
    Row{"aten::gelu", gelu},
    Row{"aten::elu", elu},
    Row{"aten::leaky_relu", leaky_relu},
    Row{"aten::clamp", clamp},
    Row{"aten::hardtanh", hardtanh},
    Row{"aten::relu6", relu6},
    Row{"aten::dropout", dropout},
    Row{"aten::contiguous", same},
    Row{"aten::alias", same},
    Row{"aten::detach", same},
    Row{"aten::mul", integers<runtime::IntegerKind::Multiply>},
    Row{"aten::add", integers<runtime::IntegerKind::Add>},
    Row{"aten::sub", integers<runtime::IntegerKind::Subtract>},
    Row{"aten::floordiv", integers<runtime::IntegerKind::FloorDivide>},
    Row{"aten::remainder", integers<runtime::IntegerKind::Remainder>},
    Row{"aten::add", add},
    Row{"aten::mul", mul},
    Row{"aten::matmul", matmul},
    Row{"aten::bmm", matmul},
    Row{"aten::layer_norm", layer_norm},
    Row{"aten::softmax", softmax},
    Row{"aten::max_pool1d", max_pool},
    Row{"aten::max_pool2d", max_pool},
    Row{"aten::max_pool3d", max_pool},
    Row{"aten::avg_pool1d", avg_pool},
    Row{"aten::avg_pool2d", avg_pool},
    Row{"aten::avg_pool3d", avg_pool},
    Row{"aten::adaptive_avg_pool1d", adaptive_avg_pool},
    Row{"aten::adaptive_avg_pool2d", adaptive_avg_pool},
    Row{"aten::adaptive_avg_pool3d", adaptive_avg_pool},
    Row{"aten::cat", concat},
    Row{"aten::reshape", reshape},
    Row{"aten::view", reshape},
    Row{"aten::permute", permute},
    Row{"aten::transpose", transpose},
    Row{"aten::flatten", flatten},
    Row{"aten::unsqueeze", unsqueeze},
    Row{"aten::squeeze", squeeze},
    Row{"aten::slice", slice},
    Row{"aten::select", select},
    Row{"aten::unbind", unbind},
    Row{"aten::split", split},
    Row{"aten::split", split_with_sizes},
    Row{"aten::split_with_sizes", split_with_sizes},
    Row{"aten::chunk", chunk},
    Row{"aten::upsample_nearest2d", resize_nearest},
    Row{"aten::upsample_bilinear2d", resize_bilinear},
    Row{"aten::size", sizes},
};

}  // namespace

bool translate_operator(ProgramBuilder& program, const Node* node) {
  const std::string_view name = node->kind().toQualString();
  return std::ranges::any_of(kRows, [&](const Row& row) {
    return row.name == name && row.translate({.program = program, .node = node});
  });
}

}  // namespace tsq::passes
