#include "runtime/program/shapes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"

namespace tsq::runtime {
namespace {

/// One operation's question, and how it complains.
struct Asked {
  const Model& model;
  std::size_t index;
  const Operation& plain;
  const std::vector<Shape>& shapes;

  [[nodiscard]] const Operation& operation() const { return plain; }
  [[nodiscard]] const Shape& input(std::size_t i = 0) const {
    return shapes[static_cast<std::size_t>(operation().inputs[i])];
  }
  [[nodiscard]] const Shape& weight() const {
    return model.constants[static_cast<std::size_t>(*operation().weight)].shape;
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw ProgramError(name_of_operation(model.program, index), problem,
                       "call the program with shapes like those that it was made for");
  }
  void require(bool condition, const std::string& problem) const {
    if (!condition) fail(problem);
  }
};

/// Is each written list as long as there are spatial dimensions?
void require_lengths(const Asked& asked, std::size_t dimensions) {
  const auto& operation = asked.operation();
  for (const auto* written :
       {&operation.stride, &operation.dilation, &operation.padding_begin, &operation.padding_end}) {
    asked.require(written->empty() || written->size() == dimensions,
                  to_text(*written) + " is not for " + std::to_string(dimensions) + " dimensions");
  }
}

std::int64_t window_positions(std::int64_t padded, std::int64_t kernel, std::int64_t stride,
                              std::int64_t dilation) {
  const auto free = padded - dilation * (kernel - 1) - 1;
  return free < 0 ? 0 : free / stride + 1;
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
  require_lengths(asked, dimensions);
  const auto stride = spatial(operation.stride, dimensions, 1);
  const auto dilation = spatial(operation.dilation, dimensions, 1);
  const auto before = spatial(operation.padding_begin, dimensions, 0);
  const auto after = spatial(operation.padding_end, dimensions, 0);
  Shape output{input[0], transposed ? weight[1] * operation.groups : weight[0]};
  for (std::size_t d = 0; d < dimensions; ++d) {
    const auto size = input[d + 2];
    const auto kernel = weight[d + 2];
    output.push_back(transposed
                         ? (size - 1) * stride[d] - before[d] - after[d] + dilation[d] * (kernel - 1) + 1
                         : window_positions(size + before[d] + after[d], kernel, stride[d], dilation[d]));
  }
  return output;
}

Shape linear(const Asked& asked) {
  Shape output = asked.input();
  asked.require(!output.empty() && output.back() == asked.weight()[1],
                "its input is " + to_text(output) + ", its weight " + to_text(asked.weight()));
  output.back() = asked.weight()[0];
  return output;
}

Shape broadcast(const Asked& asked, const Shape& a, const Shape& b) {
  const auto rank = std::max(a.size(), b.size());
  Shape output(rank, 1);
  for (std::size_t d = 0; d < rank; ++d) {
    const auto size_of = [&](const Shape& shape) {
      return d + shape.size() < rank ? 1 : shape[d + shape.size() - rank];
    };
    const auto left = size_of(a);
    const auto right = size_of(b);
    asked.require(left == right || left == 1 || right == 1,
                  "its inputs are " + to_text(a) + " and " + to_text(b) + ", which do not broadcast");
    output[d] = left == 1 ? right : left;
  }
  return output;
}

Shape matmul(const Asked& asked) {
  const auto& a = asked.input(0);
  const auto& b = asked.input(1);
  asked.require(a.size() >= 2 && b.size() >= 2 && a.back() == b[b.size() - 2],
                "its inputs are " + to_text(a) + " and " + to_text(b));
  Shape output = broadcast(asked, Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  output.push_back(a[a.size() - 2]);
  output.push_back(b.back());
  return output;
}

Shape concat(const Asked& asked) {
  Shape output = asked.input();
  const auto axis = axis_of(asked.operation(), output.size());
  asked.require(axis < output.size(), "its axis is none of " + to_text(output));
  for (std::size_t i = 1; i < asked.operation().inputs.size(); ++i) {
    Shape other = asked.input(i);
    asked.require(other.size() == output.size(), "its inputs have different ranks");
    const auto size = other[axis];
    other[axis] = output[axis];
    asked.require(other == output, "its inputs differ beside the axis");
    output[axis] += size;
  }
  return output;
}

Shape pool(const Asked& asked) {
  const auto& operation = asked.operation();
  Shape output = asked.input();
  asked.require(output.size() == operation.kernel.size() + 2, "its input is " + to_text(output));
  const auto dimensions = operation.kernel.size();
  require_lengths(asked, dimensions);
  const auto stride = operation.stride.empty() ? operation.kernel : operation.stride;
  const auto dilation = spatial(operation.dilation, dimensions, 1);
  const auto before = spatial(operation.padding_begin, dimensions, 0);
  const auto after = spatial(operation.padding_end, dimensions, 0);
  for (std::size_t d = 0; d < dimensions; ++d) {
    const auto size = output[d + 2];
    const auto more = operation.ceil_mode ? stride[d] - 1 : 0;
    auto positions =
        window_positions(size + before[d] + after[d] + more, operation.kernel[d], stride[d], dilation[d]);
    // PyTorch's rule: the last window begins inside of the image or of the padding before it.
    if (operation.ceil_mode && (positions - 1) * stride[d] >= size + before[d]) --positions;
    output[d + 2] = positions;
  }
  return output;
}

Shape global_pool(const Asked& asked) {
  Shape output = asked.input();
  asked.require(output.size() >= 3, "its input is " + to_text(output));
  std::fill(output.begin() + 2, output.end(), 1);
  return output;
}

Shape layer_norm(const Asked& asked) {
  const auto& operation = asked.operation();
  const auto& input = asked.input();
  asked.require(!input.empty(), "its input has no dimension");
  for (const auto& index : {operation.weight, operation.bias}) {
    if (!index) continue;
    const auto length = elements_of(asked.model.constants[static_cast<std::size_t>(*index)].shape);
    asked.require(length == input.back(), "its weight or bias has " + std::to_string(length) +
                                              " numbers for " + std::to_string(input.back()));
  }
  return input;
}

Shape reshape(const Asked& asked) {
  const auto& input = asked.input();
  Shape output = numbers_of(asked.operation().shape);
  for (std::size_t d = 0; d < output.size(); ++d) {
    if (output[d] != 0) continue;
    asked.require(d < input.size(),
                  "its shape " + to_text(output) + " keeps a dimension that " + to_text(input) + " lacks");
    output[d] = input[d];
  }
  const auto open = std::ranges::find(output, -1);
  if (open != output.end()) {
    *open = 1;
    const auto known = elements_of(output);
    asked.require(known > 0 && elements_of(input) % known == 0, to_text(input) + " does not fill its shape");
    *open = elements_of(input) / known;
  }
  asked.require(elements_of(output) == elements_of(input),
                to_text(input) + " does not fill " + to_text(output));
  return output;
}

Shape expand(const Asked& asked) {
  const auto& input = asked.input();
  Shape output = numbers_of(asked.operation().shape);
  asked.require(output.size() >= input.size() && broadcast(asked, output, input) == output,
                to_text(input) + " does not expand to " + to_text(output));
  return output;
}

Shape permute(const Asked& asked) {
  const auto& input = asked.input();
  const auto& order = asked.operation().order;
  Shape sorted = order;
  std::ranges::sort(sorted);
  Shape all(input.size());
  std::iota(all.begin(), all.end(), 0);
  asked.require(sorted == all, "its order " + to_text(order) + " is none of " + to_text(input));
  Shape output;
  for (const auto d : order) output.push_back(input[static_cast<std::size_t>(d)]);
  return output;
}

Shape slice(const Asked& asked) {
  const auto& operation = asked.operation();
  Shape output = asked.input();
  const auto axis = axis_of(operation, output.size());
  const auto length = operation.end.number - operation.begin.number;
  output[axis] = (length + operation.step - 1) / operation.step;
  return output;
}

Shape resize(const Asked& asked) {
  const auto& operation = asked.operation();
  Shape output = asked.input();
  const auto given = operation.size.empty() ? operation.scale_factors.size() : operation.size.size();
  asked.require(output.size() >= 3 && given == output.size() - 2, "its input is " + to_text(output));
  for (std::size_t d = 0; d < given; ++d) {
    output[d + 2] = operation.size.empty()
                        ? static_cast<std::int64_t>(
                              std::floor(static_cast<double>(output[d + 2]) * operation.scale_factors[d]))
                        : operation.size[d].number;
  }
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
    case Kind::Add:
    case Kind::Mul:
      return broadcast(asked, asked.input(0), asked.input(1));
    case Kind::Concat:
      return concat(asked);
    case Kind::MaxPool:
    case Kind::AvgPool:
      return pool(asked);
    case Kind::GlobalAvgPool:
      return global_pool(asked);
    case Kind::LayerNorm:
      return layer_norm(asked);
    case Kind::Reshape:
      return reshape(asked);
    case Kind::Permute:
      return permute(asked);
    case Kind::Expand:
      return expand(asked);
    case Kind::Slice:
      return slice(asked);
    case Kind::ResizeNearest:
    case Kind::ResizeBilinear:
      return resize(asked);
    case Kind::Convert:
    case Kind::Activation:
    case Kind::Softmax:
      return asked.input();
    case Kind::Transpose:
    case Kind::Unsqueeze:
    case Kind::Squeeze:
    case Kind::Flatten:
      break;  // have become others
  }
  asked.fail("it has no shape");
}

void check_post_ops(const Asked& asked, const Shape& output) {
  for (const auto& post_op : asked.operation().post_ops) {
    if (post_op.value < 0) continue;
    const auto& read = asked.shapes[static_cast<std::size_t>(post_op.value)];
    asked.require(broadcast(asked, output, read) == output,
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
  Shape output = output_of(asked);
  asked.require(std::ranges::all_of(output, [](auto size) { return size > 0; }),
                "its output would be " + to_text(output));
  check_post_ops(asked, output);
  return output;
}

}  // namespace tsq::runtime
