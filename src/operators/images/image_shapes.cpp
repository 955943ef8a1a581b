#include "operators/images/image_shapes.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/arguments.h"
#include "operators/traits.h"
#include "operators/weighted.h"

namespace tsq::operators {
namespace {

using ir::Model;
using ir::ModuleCall;
using ir::Node;
using ir::Value;
using ir::Weighted;

/// The last part of PyTorch's name: "torch.nn.functional.relu" → "relu".
std::string_view operator_name(std::string_view target) { return target.substr(target.rfind('.') + 1); }

constexpr std::array<std::string_view, 4> kPools{"MaxPool2d", "AvgPool2d", "max_pool2d", "avg_pool2d"};
constexpr std::array<std::string_view, 4> kAdaptivePools{"AdaptiveAvgPool2d", "AdaptiveMaxPool2d",
                                                         "adaptive_avg_pool2d", "adaptive_max_pool2d"};

bool contains(const std::array<std::string_view, 4>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<int64_t> both_sizes(const c10::IValue& value) {
  if (value.isInt()) return {value.toInt(), value.toInt()};
  if (value.isIntList()) {
    const auto list = value.toIntVector();
    return list.size() == 1 ? std::vector<int64_t>{list[0], list[0]} : list;
  }
  std::vector<int64_t> sizes;
  if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) {
      if (element.isInt()) sizes.push_back(element.toInt());
    }
  }
  return sizes;
}

/// An argument for height and width; empty where it is not known.
std::vector<int64_t> both_sizes(const Model& model, const Node* node, const char* argument) {
  const auto value = argument_constant(model, node, argument);
  return value ? both_sizes(*value) : std::vector<int64_t>();
}

/// Kernel, stride and padding of a pool, for height and width.
struct Pool {
  std::vector<int64_t> kernel{};
  std::vector<int64_t> stride{};
  std::vector<int64_t> padding{};
};

/// Empty when the pool's numbers are not known, or its sizes do not follow the common rule.
std::optional<Pool> pool_of(const Model& model, const Node* node) {
  Pool pool{.kernel = both_sizes(model, node, "kernel_size"),
            .stride = both_sizes(model, node, "stride"),
            .padding = both_sizes(model, node, "padding")};
  if (pool.stride.size() != 2) pool.stride = pool.kernel;
  const auto ceil_mode = operators::argument_constant(model, node, "ceil_mode");
  const bool rounds_up = ceil_mode && (!ceil_mode->isBool() || ceil_mode->toBool());
  const auto dilation = both_sizes(model, node, "dilation");
  const bool dilated = !dilation.empty() && dilation != std::vector<int64_t>{1, 1};
  if (pool.kernel.size() != 2 || pool.padding.size() != 2 || dilated || rounds_up) return std::nullopt;
  return pool;
}

}  // namespace

ImageShapes::ImageShapes(const Model& model) : model_(model) {
  const auto nodes = ir::nodes_in_order(*model.graph);
  for (const Node* node : nodes) visit(node);
  // What a convolution tells of its input holds for those that read it before, too.
  shapes_.clear();
  for (const Node* node : nodes) visit(node);
}

std::size_t ImageShapes::interned(const std::string& key, const Size& size) {
  const auto [found, is_new] = interned_.emplace(key, sizes_.size());
  if (is_new) sizes_.push_back(size);
  return found->second;
}

std::size_t ImageShapes::constant(int64_t value) {
  return interned(fmt::format("{}", value), {.constant = value});
}

std::size_t ImageShapes::own_size(const Value* value, std::size_t axis) {
  return interned(fmt::format("%{}[{}]", value->unique(), axis), {.source = value});
}

/// (size + offset) / stride + 1, where offset is what padding adds and the kernel takes away.
std::size_t ImageShapes::strided(std::size_t size, int64_t offset, int64_t stride) {
  if (stride == 1 && offset == -1) return size;
  const Size from = sizes_[size];
  if (from.constant) return constant((*from.constant + offset) / stride + 1);
  return interned(fmt::format("({}{:+})/{}+1", size, offset, stride),
                  {.source = from.source, .factor = from.factor * stride});
}

/// size · stride + offset.
std::size_t ImageShapes::spread(std::size_t size, int64_t offset, int64_t stride) {
  if (stride == 1 && offset == 0) return size;
  const Size from = sizes_[size];
  if (from.constant) return constant(*from.constant * stride + offset);
  return interned(fmt::format("({}*{}){:+}", size, stride, offset), {});
}

ImageShapes::Shape ImageShapes::shape_of(const Value* value) {
  if (const auto found = shapes_.find(value); found != shapes_.end()) return found->second;
  Shape shape{};
  const at::Tensor tensor = ir::held_tensor(model_, value);
  if (tensor.defined() && tensor.dim() <= 4) {
    shape.fill(constant(1));
    for (int64_t i = 0; i < tensor.dim(); ++i)
      shape[static_cast<std::size_t>(4 - tensor.dim() + i)] = constant(tensor.size(i));
  } else {
    for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = own_size(value, i);
    if (const auto known = channels_.find(value); known != channels_.end())
      shape[1] = constant(known->second);
  }
  return shapes_[value] = shape;
}

ImageShapes::Shape ImageShapes::broadcast(const Value* result, const Shape& a, const Shape& b) {
  Shape shape{};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (a[i] == b[i] || sizes_[b[i]].constant == 1) {
      shape[i] = a[i];
    } else if (sizes_[a[i]].constant == 1) {
      shape[i] = b[i];
    } else {
      shape[i] = own_size(result, i);
    }
  }
  return shape;
}

/// What a convolution reads has its channels, whatever it comes from.
void ImageShapes::know_channels(const Value* input, Shape& shape, int64_t channels) {
  channels_[input] = channels;
  shape[1] = constant(channels);
  shapes_[input] = shape;
}

void ImageShapes::visit_convolution(const Node* node, const Weighted& weighted) {
  Shape shape = shape_of(node->input(0));
  know_channels(node->input(0), shape, weighted.weight.size(1) * weighted.groups);
  shape[1] = constant(weighted.weight.size(0));
  for (std::size_t i = 0; i < 2; ++i) {
    const int64_t reach = weighted.dilation[i] * (weighted.weight.size(static_cast<int64_t>(i) + 2) - 1);
    const int64_t padding = weighted.padding_name == "same"    ? reach
                            : weighted.padding_name == "valid" ? 0
                                                               : 2 * weighted.padding[i];
    shape[i + 2] = strided(shape[i + 2], padding - reach - 1, weighted.stride[i]);
  }
  shapes_[node->output()] = shape;
}

void ImageShapes::visit_transposed_convolution(const Node* node, const Weighted& weighted) {
  Shape shape = shape_of(node->input(0));
  know_channels(node->input(0), shape, weighted.weight.size(0));
  shape[1] = constant(weighted.weight.size(1) * weighted.groups);
  for (std::size_t i = 0; i < 2; ++i) {
    const int64_t reach = weighted.dilation[i] * (weighted.weight.size(static_cast<int64_t>(i) + 2) - 1);
    const int64_t more = weighted.output_padding.empty() ? 0 : weighted.output_padding[i];
    shape[i + 2] = spread(shape[i + 2], reach + more + 1 - 2 * weighted.padding[i] - weighted.stride[i],
                          weighted.stride[i]);
  }
  shapes_[node->output()] = shape;
}

/// What is concatenated has one shape but for the channels.
void ImageShapes::visit_concatenation(const Node* node, const std::vector<Value*>& parts) {
  Shape shape = shape_of(parts.front());
  int64_t channels = 0;
  bool is_known = true;
  for (const Value* part : parts) {
    const auto own = sizes_[shape_of(part)[1]].constant;
    is_known = is_known && own.has_value();
    channels += own.value_or(0);
  }
  shape[1] = is_known ? constant(channels) : own_size(node->output(), 1);
  shapes_[node->output()] = shape;
}

/// x[:, :8] has the other sizes of x.
void ImageShapes::visit_slice(const Node* node) {
  const auto dim = ir::whole_number_constant(node->input(1));
  if (!dim || *dim < 0 || *dim > 3) return;
  Shape shape = shape_of(node->input(0));
  std::size_t& cut = shape[static_cast<std::size_t>(*dim)];
  const auto size = sizes_[cut].constant;
  const auto number = [&](std::size_t input, int64_t otherwise) {
    return node->input(input)->mustBeNone() ? std::optional(otherwise)
                                            : ir::whole_number_constant(node->input(input));
  };
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  const auto start = number(2, 0);
  const auto end = number(3, kEnd);
  const bool is_plain = start && end && number(4, 1) == 1 && *start >= 0 && *end >= *start;
  if (!is_plain || (!size && (*start != 0 || *end != kEnd))) {
    cut = own_size(node->output(), static_cast<std::size_t>(*dim));
  } else if (size) {
    cut = constant(std::max<int64_t>(0, std::min(*end, *size) - *start));
  }
  shapes_[node->output()] = shape;
}

void ImageShapes::visit(const Node* node) {
  if (node->outputs().size() != 1) return;
  const auto targets = ir::targets(model_, node);
  if (targets.empty()) return;
  const Value* output = node->output();
  if (ir::is_module_call(node)) {
    const ModuleCall& call = call_of(model_, node);
    if (call.weighted && call.weighted->stride.size() == 2) {
      return operators::is_transposed(call.type) ? visit_transposed_convolution(node, *call.weighted)
                                                 : visit_convolution(node, *call.weighted);
    }
  }
  const auto operands = ir::operands(node);
  if (operands.empty()) return;
  const std::string_view name = operator_name(targets.front().name);
  if (node->kind() == c10::aten::cat) {
    if (ir::arguments(node).front().is_list && ir::whole_number_constant(node->input(1)) == 1)
      visit_concatenation(node, ir::arguments(node).front().elements);
    return;
  }
  if (node->kind() == c10::aten::slice) return node->inputs().size() == 5 ? visit_slice(node) : void();
  Shape shape = shape_of(operands.front());
  const auto* const row = traits_of(model_, node);
  if (has(row, KeepsShape)) {
    shapes_[output] = shape;
  } else if (has(row, ElementwiseOfTwo) && operands.size() >= 2) {
    shapes_[output] = ir::holds_tensor(operands[1]) ? broadcast(output, shape, shape_of(operands[1])) : shape;
  } else if (contains(kPools, name)) {
    const auto pool = pool_of(model_, node);
    for (std::size_t i = 0; i < 2; ++i) {
      shape[i + 2] = pool ? strided(shape[i + 2], 2 * pool->padding[i] - pool->kernel[i], pool->stride[i])
                          : own_size(output, i + 2);
    }
    shapes_[output] = shape;
  } else if (contains(kAdaptivePools, name)) {
    const auto sizes = both_sizes(model_, node, "output_size");
    for (std::size_t i = 2; i < 4; ++i)
      shape[i] = sizes.size() == 2 ? constant(sizes[i - 2]) : own_size(output, i);
    shapes_[output] = shape;
  } else if (name == "mean" && operands.size() >= 2) {
    const auto axes = ir::constant_value(ir::arguments(node)[1].value);
    if (axes && axes->isIntList() && axes->toIntVector().size() == 2)
      shapes_[output] = {shape[0], shape[1], constant(1), constant(1)};
  }
}

ImageShapes::Fit ImageShapes::fit_size(std::size_t addend, std::size_t other) const {
  if (addend == other) return Fit::SameShape;
  const Size& small = sizes_[addend];
  const Size& large = sizes_[other];
  if (small.constant == 1) return Fit::Broadcasts;
  if (large.constant == 1 || (small.constant && large.constant)) return Fit::Enlarges;
  const bool is_larger = small.source == large.source && small.factor < large.factor;
  return small.source != nullptr && is_larger ? Fit::Enlarges : Fit::Unknown;
}

ImageShapes::Fit ImageShapes::fit(const Value* addend, const Value* other) {
  const Shape small = shape_of(addend);
  const Shape large = shape_of(other);
  Fit result = Fit::SameShape;
  for (std::size_t i = 0; i < small.size(); ++i) result = std::max(result, fit_size(small[i], large[i]));
  return result;
}

}  // namespace tsq::operators
