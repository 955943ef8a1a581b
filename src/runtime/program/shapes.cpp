#include "runtime/program/shapes.h"

#include <algorithm>
#include <cmath>

#include "runtime/program/asked.h"
#include "runtime/program/attributes.h"

namespace tsq::runtime {
namespace {

/// Only the batch, or with it the channels, of an image may have no elements. From `first` on none may; and
/// kernels count the places of an image in 32 bits.
void require_elements(const Asked& asked, const Shape& shape, std::size_t first) {
  const bool all = std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end(),
                               [](auto size) { return size > 0; });
  asked.require(all, "it has " + to_text(shape) + ", in which more than the batch is empty");
  const bool counts =
      std::all_of(shape.begin() + 2, shape.end(), [](auto size) { return size <= kLargestWindow; });
  asked.require(counts, "it has " + to_text(shape) + ", which is too large for an image");
}

/// All numbers are at most `kLargestWindow`, so that sums and a product stay in 64 bits.
std::int64_t window_positions(std::int64_t padded, std::int64_t kernel, std::int64_t stride,
                              std::int64_t dilation) {
  const auto free = padded - dilation * (kernel - 1) - 1;
  return free < 0 ? 0 : free / stride + 1;
}

/// (size - 1) * stride + dilation * (kernel - 1) + 1, less the padding.
std::int64_t transposed_positions(const Asked& asked, std::int64_t size, std::int64_t kernel,
                                  std::int64_t stride, std::int64_t dilation, std::int64_t padding) {
  const auto reached = checked_sum((size - 1) * stride, dilation * (kernel - 1));
  const auto positions = checked_sum(reached, 1 - padding);
  asked.require(positions.has_value(), "its output is too large for an image");
  return *positions;
}

Shape convolution(const Asked& asked) {
  const auto& operation = asked.operation();
  const auto& input = asked.input();
  const auto& weight = asked.weight();
  const bool transposed = operation.kind == Kind::TransposedConvolution;
  asked.require(input.size() == weight.size(),
                "its input is " + to_text(input) + ", its weight " + to_text(weight));
  const auto channels = transposed ? weight[0] : weight[1] * operation.groups;
  asked.require(input[1] == channels, "its input has " + std::to_string(input[1]) +
                                          " channels, and its weight " + std::to_string(channels));
  const auto dimensions = input.size() - 2;
  require_elements(asked, input, 1);
  const auto stride = spatial(operation.stride, dimensions, 1);
  const auto dilation = spatial(operation.dilation, dimensions, 1);
  const auto before = spatial(operation.padding_begin, dimensions, 0);
  const auto after = spatial(operation.padding_end, dimensions, 0);
  Shape output{input[0], transposed ? weight[1] * operation.groups : weight[0]};
  for (std::size_t d = 0; d < dimensions; ++d) {
    const auto size = input[d + 2];
    const auto kernel = weight[d + 2];
    output.push_back(
        transposed ? transposed_positions(asked, size, kernel, stride[d], dilation[d], before[d] + after[d])
                   : window_positions(size + before[d] + after[d], kernel, stride[d], dilation[d]));
  }
  require_elements(asked, output, 1);
  return output;
}

Shape linear(const Asked& asked) {
  Shape output = asked.input();
  asked.require(!output.empty() && output.back() == asked.weight()[1],
                "its input is " + to_text(output) + ", its weight " + to_text(asked.weight()));
  output.back() = asked.weight()[0];
  return output;
}

Shape matmul(const Asked& asked) {
  const auto& a = asked.input(0);
  const auto& b = asked.input(1);
  asked.require(a.size() >= 2 && b.size() >= 2 && a.back() == b[b.size() - 2],
                "its inputs are " + to_text(a) + " and " + to_text(b));
  Shape output = broadcast_shape(asked, Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  output.push_back(a[a.size() - 2]);
  output.push_back(b.back());
  return output;
}

Shape attention(const Asked& asked) {
  const auto& query = asked.input(0);
  const auto& key = asked.input(1);
  const auto& value = asked.input(2);
  const auto outer = [](const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); };
  const bool fit = query.size() >= 2 && key.size() >= 2 && value.size() >= 2 && query.back() == key.back() &&
                   key[key.size() - 2] == value[value.size() - 2];
  asked.require(fit, "its inputs are " + to_text(query) + ", " + to_text(key) + " and " + to_text(value));
  Shape output = broadcast_shape(asked, broadcast_shape(asked, outer(query), outer(key)), outer(value));
  output.push_back(query[query.size() - 2]);
  output.push_back(key[key.size() - 2]);
  if (asked.operation().inputs.size() == 4) {
    const auto& mask = asked.input(3);
    asked.require(mask.size() <= output.size() && broadcast_shape(asked, output, mask) == output,
                  "its mask is " + to_text(mask) + ", its scores are " + to_text(output));
  }
  output.back() = value.back();
  return output;
}

/// Steps come first; a tensor of two dimensions is one sample.
Shape recurrent(const Asked& asked) {
  const auto& operation = asked.operation();
  const bool lstm = operation.kind == Kind::Lstm;
  Shape output = asked.input();
  asked.require((output.size() == 2 || output.size() == 3) && output.back() == asked.weight()[1],
                "its input is " + to_text(output) + ", its weight " + to_text(asked.weight()));
  asked.require(output.front() > 0, "its input " + to_text(output) + " has no step");
  output.back() = asked.weight()[0] / (lstm ? 4 : 3);
  Shape state = output;
  state.front() = 1;
  for (std::size_t i = 1; i < operation.inputs.size(); ++i) {
    asked.require(asked.input(i) == state,
                  "its states are " + to_text(asked.input(i)) + ", and " + to_text(state) + " are wanted");
  }
  if (lstm) ++output.front();
  return output;
}

Shape concat(const Asked& asked) {
  // PyTorch's rule: [0] joins tensors of any shape.
  const auto is_nothing = [&](int input) {
    return asked.shapes[static_cast<std::size_t>(input)] == Shape{0};
  };
  const auto& inputs = asked.operation().inputs;
  const auto first = static_cast<std::size_t>(std::ranges::find_if_not(inputs, is_nothing) - inputs.begin());
  if (first == inputs.size()) return {0};
  Shape output = asked.input(first);
  const auto axis = axis_of(asked.operation(), output.size());
  for (std::size_t i = first + 1; i < inputs.size(); ++i) {
    if (is_nothing(inputs[i])) continue;
    Shape other = asked.input(i);
    asked.require(other.size() == output.size(), "its inputs have different ranks");
    const auto size = other[axis];
    other[axis] = output[axis];
    asked.require(other == output, "its inputs differ beside the axis");
    output[axis] = asked.known(checked_sum(output[axis], size));
  }
  return output;
}

Shape pool(const Asked& asked) {
  const auto& operation = asked.operation();
  Shape output = asked.input();
  asked.require(output.size() == operation.kernel.size() + 2, "its input is " + to_text(output));
  require_elements(asked, output, 1);
  const auto dimensions = operation.kernel.size();
  const auto stride = operation.stride.empty() ? operation.kernel : operation.stride;
  const auto dilation = spatial(operation.dilation, dimensions, 1);
  const auto before = spatial(operation.padding_begin, dimensions, 0);
  const auto after = spatial(operation.padding_end, dimensions, 0);
  for (std::size_t d = 0; d < dimensions; ++d) {
    // No window lies in the padding alone.
    const auto reach = dilation[d] * (operation.kernel[d] - 1) + 1;
    asked.require(before[d] < reach && after[d] < reach, "its padding is as large as its windows");
    const auto size = output[d + 2];
    const auto more = operation.ceil_mode ? stride[d] - 1 : 0;
    auto positions =
        window_positions(size + before[d] + after[d] + more, operation.kernel[d], stride[d], dilation[d]);
    // PyTorch's rule: the last window begins inside of the image or of the padding before it.
    if (operation.ceil_mode && (positions - 1) * stride[d] >= size + before[d]) --positions;
    output[d + 2] = positions;
  }
  require_elements(asked, output, 1);
  return output;
}

Shape global_pool(const Asked& asked) {
  Shape output = asked.input();
  asked.require(output.size() >= 3, "its input is " + to_text(output));
  std::fill(output.begin() + 2, output.end(), 1);
  return output;
}

Shape adaptive_pool(const Asked& asked) {
  Shape output = asked.input();
  const auto sizes = numbers_of(asked.operation().size);
  asked.require(output.size() == sizes.size() + 2 && output.size() <= 5, "its input is " + to_text(output));
  require_elements(asked, output, asked.operation().kind == Kind::AdaptiveMaxPool ? 1 : 2);
  std::ranges::copy(sizes, output.begin() + 2);
  const bool counts = std::ranges::all_of(sizes, [](auto size) { return size <= kLargestWindow; });
  asked.require(counts, "its output would be " + to_text(output) + ", which is too large for an image");
  return output;
}

/// Its axes have been made plain: sorted, counted from the front.
Shape reduced(const Asked& asked) {
  Shape output;
  const bool finds = asked.operation().kind == Kind::Amax || asked.operation().kind == Kind::Amin;
  for (std::size_t d = 0; d < asked.input().size(); ++d) {
    const bool gone = std::ranges::binary_search(asked.operation().axes, static_cast<std::int64_t>(d));
    asked.require(!finds || !gone || asked.input()[d] > 0, "nothing of " + to_text(asked.input()) +
                                                               " is the largest or smallest in dimension " +
                                                               std::to_string(d));
    if (!gone) output.push_back(asked.input()[d]);
    if (gone && asked.operation().keep_dims) output.push_back(1);
  }
  return output;
}

Shape pad(const Asked& asked) {
  const auto& operation = asked.operation();
  Shape output = asked.input();
  const auto padded = operation.padding_begin.size();
  asked.require(output.size() >= padded, "its input is " + to_text(output));
  for (std::size_t d = 0; d < padded; ++d) {
    auto& size = output[output.size() - padded + d];
    size = asked.known(checked_sum(size, operation.padding_begin[d] + operation.padding_end[d]));
  }
  return output;
}

Shape embedding(const Asked& asked) {
  Shape output = asked.input();
  output.push_back(asked.weight()[1]);
  return output;
}

/// Operations whose weight and bias have a number for each place of an axis.
Shape channelwise(const Asked& asked, std::size_t axis, bool or_one) {
  const auto& operation = asked.operation();
  const auto& input = asked.input();
  asked.require(axis < input.size(), "its input is " + to_text(input));
  for (const auto& index : {operation.weight, operation.bias}) {
    if (!index) continue;
    const auto length = elements_of(asked.model.constants[static_cast<std::size_t>(*index)].shape);
    asked.require(
        length == input[axis] || (or_one && length == 1),
        "its weight or bias has " + std::to_string(length) + " numbers for " + std::to_string(input[axis]));
  }
  return input;
}

Shape group_norm(const Asked& asked) {
  const auto& input = asked.input();
  asked.require(input.size() >= 2 && input[1] % asked.operation().groups == 0,
                std::to_string(asked.operation().groups) + " groups do not divide " + to_text(input));
  return channelwise(asked, 1, false);
}

Shape layer_norm(const Asked& asked) {
  asked.require(!asked.input().empty(), "its input has no dimension");
  return channelwise(asked, asked.input().size() - 1, false);
}

Shape resize(const Asked& asked) {
  const auto& operation = asked.operation();
  Shape output = asked.input();
  const auto given = operation.size.empty() ? operation.scale_factors.size() : operation.size.size();
  asked.require(output.size() >= 3 && given == output.size() - 2, "its input is " + to_text(output));
  require_elements(asked, output, 1);
  for (std::size_t d = 0; d < given; ++d) {
    // Both factors have at most 31 bits.
    output[d + 2] = operation.size.empty()
                        ? static_cast<std::int64_t>(
                              std::floor(static_cast<double>(output[d + 2]) * operation.scale_factors[d]))
                        : operation.size[d].number;
  }
  require_elements(asked, output, 1);
  return output;
}

Shape output_of(const Asked& asked) {
  switch (asked.operation().kind) {
    case Kind::Convolution:
    case Kind::TransposedConvolution:
      return convolution(asked);
    case Kind::Linear:
      return linear(asked);
    case Kind::Matmul:
      return matmul(asked);
    case Kind::Attention:
      return attention(asked);
    case Kind::Lstm:
    case Kind::Gru:
      return recurrent(asked);
    case Kind::Add:
    case Kind::Sub:
    case Kind::Mul:
    case Kind::Div:
    case Kind::Maximum:
    case Kind::Minimum:
    case Kind::Equal:
    case Kind::NotEqual:
    case Kind::Less:
    case Kind::LessEqual:
      return broadcast_shape(asked, asked.input(0), asked.input(1));
    case Kind::Where:
      return broadcast_shape(asked, broadcast_shape(asked, asked.input(0), asked.input(1)), asked.input(2));
    case Kind::Concat:
      return concat(asked);
    case Kind::MaxPool:
    case Kind::AvgPool:
      return pool(asked);
    case Kind::GlobalAvgPool:
      return global_pool(asked);
    case Kind::AdaptiveAvgPool:
    case Kind::AdaptiveMaxPool:
      return adaptive_pool(asked);
    case Kind::Mean:
    case Kind::Sum:
    case Kind::Amax:
    case Kind::Amin:
      return reduced(asked);
    case Kind::LayerNorm:
      return layer_norm(asked);
    case Kind::GroupNorm:
      return group_norm(asked);
    case Kind::Prelu:
      return channelwise(asked, asked.input().size() < 2 ? 0 : 1, true);
    case Kind::ScaleShift:
      return channelwise(asked, axis_of(asked.operation(), asked.input().size()), true);
    case Kind::Embedding:
      return embedding(asked);
    case Kind::Pad:
      return pad(asked);
    case Kind::Reshape:
      return shape_of_reshape(asked);
    case Kind::Permute:
      return shape_of_permute(asked);
    case Kind::Expand:
      return shape_of_expand(asked);
    case Kind::Slice:
      return shape_of_slice(asked);
    case Kind::ResizeNearest:
    case Kind::ResizeBilinear:
      return resize(asked);
    case Kind::Convert:
    case Kind::Activation:
    case Kind::Softmax:
    case Kind::LogSoftmax:
      return asked.input();
    case Kind::Number:
      return {};
    case Kind::Transpose:
    case Kind::Unsqueeze:
    case Kind::Squeeze:
    case Kind::Flatten:
    case Kind::Unflatten:
      break;  // have become others
  }
  asked.fail("it has no shape");
}

/// What the table says of the first input. PyTorch's rule for concatenations: [0] is nothing.
void require_ranks(const Asked& asked) {
  if (asked.operation().inputs.empty()) return;
  const auto ranks = row_of(asked.operation().kind).ranks;
  const auto rank = static_cast<std::int64_t>(asked.input().size());
  asked.require(ranks.fewest <= rank && rank <= ranks.most, "its input is " + to_text(asked.input()));
}

void check_post_ops(const Asked& asked, const Shape& output) {
  for (const auto& post_op : asked.operation().post_ops) {
    if (post_op.value < 0) continue;
    const auto& read = asked.shapes[static_cast<std::size_t>(post_op.value)];
    asked.require(broadcast_shape(asked, output, read) == output,
                  "its post-op reads " + to_text(read) + ", its output is " + to_text(output));
  }
}

}  // namespace

Shape spatial(const Shape& written, std::size_t dimensions, std::int64_t standard) {
  return written.empty() ? Shape(dimensions, standard) : written;
}

Shape pool_padding_end(const Operation& operation, const Shape& input, const Shape& output) {
  const auto dimensions = operation.kernel.size();
  const auto stride = operation.stride.empty() ? operation.kernel : operation.stride;
  const auto dilation = spatial(operation.dilation, dimensions, 1);
  const auto before = spatial(operation.padding_begin, dimensions, 0);
  Shape after = spatial(operation.padding_end, dimensions, 0);
  for (std::size_t d = 0; d < dimensions; ++d) {
    const auto end = (output[d + 2] - 1) * stride[d] + dilation[d] * (operation.kernel[d] - 1) + 1;
    if (operation.ceil_mode) after[d] = std::max<std::int64_t>(after[d], end - before[d] - input[d + 2]);
  }
  return after;
}

std::size_t axis_of(const Operation& operation, std::size_t rank) {
  return static_cast<std::size_t>(operation.axis < 0 ? operation.axis + static_cast<std::int64_t>(rank)
                                                     : operation.axis);
}

Shape numbers_of(const Extents& extents) {
  Shape numbers;
  for (const auto& extent : extents) numbers.push_back(extent.number);
  return numbers;
}

Shape shape_of(const Model& model, std::size_t index, const Operation& plain,
               const std::vector<Shape>& shapes) {
  const Asked asked{model, index, plain, shapes};
  require_ranks(asked);
  Shape output = output_of(asked);
  asked.require(output.size() <= static_cast<std::size_t>(kMostDimensions),
                "its output would have " + std::to_string(output.size()) + " dimensions, and " +
                    std::to_string(kMostDimensions) + " are possible");
  asked.require(is_possible(output), "its output would be " + to_text(output) + ", which no tensor can be");
  check_post_ops(asked, output);
  return output;
}

}  // namespace tsq::runtime
