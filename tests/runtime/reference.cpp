#include "runtime/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "runtime/program/resolve.h"
#include "runtime/program/shapes.h"
#include "runtime/reference_functions.h"

namespace tsq::runtime::test {
namespace {

class Interpreter {
 public:
  explicit Interpreter(const Model& model) : model_(model), values_(model.program.values.size()) {}

  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const Shape& integers) {
    std::vector<Shape> input_shapes;
    for (const auto& input : inputs) input_shapes.push_back(input.sizes);
    auto resolved = resolve(model_, input_shapes, integers);
    shapes_ = std::move(resolved.shapes);
    for (std::size_t i = 0; i < model_.program.operations.size(); ++i) {
      keep_view(model_.program.operations[i], resolved.model.program.operations[i]);
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      read(model_.program.inputs[i], inputs[i].sizes, [&](std::size_t n) { return inputs[i].numbers[n]; });
    }
    for (std::size_t v = 0; v < values_.size(); ++v) read_constant(static_cast<int>(v));
    for (const auto& operation : resolved.model.program.operations) write(operation);
    std::vector<Tensor> outputs;
    for (const int output : model_.program.outputs) outputs.push_back(stored(output));
    return outputs;
  }

 private:
  [[nodiscard]] const Value& value(int index) const {
    return model_.program.values[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const Real& real(int index) const { return values_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const Shape& shape(int index) const { return shapes_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const Constant& constant(int index) const {
    return model_.constants[static_cast<std::size_t>(index)];
  }

  [[nodiscard]] double number(const Constant& tensor, std::size_t index) const {
    if (tensor.dtype == Dtype::F32) return tensor.floats()[index];
    if (tensor.dtype == Dtype::S8) return tensor.int8s()[index];
    return static_cast<const std::uint8_t*>(tensor.data.get())[index];
  }

  /// Views that are lowered to others are computed as they are written.
  static void keep_view(const Operation& written, Operation& resolved) {
    if (written.kind == resolved.kind && written.kind != Kind::Permute) return;
    resolved = written;
  }

  template <typename Numbers>
  void read(int index, const Shape& sizes, const Numbers& numbers) {
    auto& real = values_[static_cast<std::size_t>(index)];
    real = zeros(sizes);
    for (std::size_t n = 0; n < real.numbers.size(); ++n) {
      real.numbers[n] = (numbers(n) - value(index).zero_point) * value(index).scale;
    }
  }

  void read_constant(int index) {
    if (!value(index).constant) return;
    const auto& tensor = constant(*value(index).constant);
    read(index, tensor.shape, [&](std::size_t n) { return number(tensor, n); });
  }

  [[nodiscard]] double rounded(int index, double real) const {
    const auto& declared = value(index);
    if (!is_int8(declared.dtype)) return real;
    const double lowest = declared.dtype == Dtype::U8 ? 0 : -128;
    if (std::isnan(real)) return lowest + 255;
    return std::clamp(std::nearbyint(real / declared.scale) + declared.zero_point, lowest, lowest + 255);
  }

  [[nodiscard]] Tensor stored(int index) const {
    Tensor tensor{value(index).dtype, shape(index), {}};
    for (const double number : real(index).numbers) {
      tensor.numbers.push_back(
          is_int8(tensor.dtype) ? std::round(number / value(index).scale) + value(index).zero_point : number);
    }
    return tensor;
  }

  void write(const Operation& operation) {
    Real result = compute(operation);
    for_each_index(result.sizes, [&](const Shape& index) {
      auto& number = result.at(index);
      for (const auto& post_op : operation.post_ops) {
        if (post_op.kind == PostOpKind::Add)
          number += broadcast_at(real(post_op.value), index);
        else if (post_op.kind == PostOpKind::Mul)
          number *= broadcast_at(real(post_op.value), index);
        else
          number = reference_function(post_op, number);
      }
      const auto& declared = value(operation.output);
      const double kept = rounded(operation.output, number);
      number = is_int8(declared.dtype) ? (kept - declared.zero_point) * declared.scale : kept;
    });
    values_[static_cast<std::size_t>(operation.output)] = std::move(result);
  }

  /// A constant's numbers, each row multiplied by its scale; none where there is no constant.
  [[nodiscard]] std::vector<double> weights(std::optional<int> index, std::optional<int> scales) const {
    if (!index) return {};
    const auto& tensor = constant(*index);
    const auto count = static_cast<std::size_t>(elements_of(tensor.shape));
    const std::size_t length = count / static_cast<std::size_t>(tensor.shape[0]);
    std::vector<double> numbers;
    for (std::size_t i = 0; i < count; ++i) {
      const bool one = scales && elements_of(constant(*scales).shape) == 1;
      numbers.push_back(number(tensor, i) * (scales ? constant(*scales).floats()[one ? 0 : i / length] : 1));
    }
    return numbers;
  }

  [[nodiscard]] std::vector<const Real*> inputs_of(const Operation& operation) const {
    std::vector<const Real*> read;
    for (const int input : operation.inputs) read.push_back(&real(input));
    return read;
  }

  [[nodiscard]] Real compute(const Operation& operation) const {
    Real output = zeros(shape(operation.output));
    if (operation.kind == Kind::Number) return {{}, {static_cast<double>(operation.number.number)}};
    const Real& input = real(operation.inputs[0]);
    switch (operation.kind) {
      case Kind::Convert:
      case Kind::Activation:
        return input;
      case Kind::Reshape:
      case Kind::Unsqueeze:
      case Kind::Squeeze:
      case Kind::Flatten:
      case Kind::Unflatten:
        return {shape(operation.output), input.numbers};
      case Kind::Expand:
        for_each_index(output.sizes,
                       [&](const Shape& index) { output.at(index) = broadcast_at(input, index); });
        break;
      case Kind::Transpose:
        for_each_index(output.sizes, [&](Shape index) {
          auto& number = output.at(index);
          const auto rank = static_cast<std::int64_t>(index.size());
          const auto place = [rank](std::int64_t axis) {
            return static_cast<std::size_t>((axis + rank) % rank);
          };
          std::swap(index[place(operation.axis)], index[place(operation.other_axis)]);
          number = input.at(index);
        });
        break;
      case Kind::Convolution:
        convolve(operation, input, output);
        break;
      case Kind::TransposedConvolution:
        convolve_transposed(operation, input, output);
        break;
      case Kind::Linear:
        multiply_weights(operation, input, output);
        break;
      case Kind::Matmul:
        multiply(operation, input, real(operation.inputs[1]), output);
        break;
      case Kind::Attention:
        reference_attention(operation, input, real(operation.inputs[1]), real(operation.inputs[2]),
                            operation.inputs.size() == 4 ? &real(operation.inputs[3]) : nullptr, output);
        break;
      case Kind::Lstm:
      case Kind::Gru:
        reference_recurrent(operation,
                            {weights(operation.weight, operation.weight_scales),
                             weights(operation.recurrent_weight, operation.recurrent_scales),
                             weights(operation.bias, {}), weights(operation.recurrent_bias, {})},
                            inputs_of(operation), output);
        break;
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
        for_each_index(output.sizes, [&](const Shape& index) {
          output.at(index) = reference_binary(operation.kind, broadcast_at(input, index),
                                              broadcast_at(real(operation.inputs[1]), index));
        });
        break;
      case Kind::Where:
        for_each_index(output.sizes, [&](const Shape& index) {
          const bool chosen = broadcast_at(input, index) != 0;
          output.at(index) = broadcast_at(real(operation.inputs[chosen ? 1 : 2]), index);
        });
        break;
      case Kind::AdaptiveAvgPool:
      case Kind::AdaptiveMaxPool:
        reference_adaptive_pool(operation, input, output);
        break;
      case Kind::Mean:
      case Kind::Sum:
      case Kind::Amax:
      case Kind::Amin:
        reference_reduction(operation, input, output);
        break;
      case Kind::GroupNorm:
        normalize_groups(operation, input, output);
        break;
      case Kind::Prelu:
      case Kind::ScaleShift:
        scale_channels(operation, input, output);
        break;
      case Kind::Pad:
        reference_pad(operation, input, output);
        break;
      case Kind::Embedding:
        for_each_index(output.sizes, [&](const Shape& index) {
          const auto row = static_cast<std::int64_t>(input.at(Shape(index.begin(), index.end() - 1)));
          const auto place = static_cast<std::size_t>(row * output.sizes.back() + index.back());
          output.at(index) = number(constant(*operation.weight), place);
          if (operation.weight_scales) output.at(index) *= constant(*operation.weight_scales).floats()[row];
          output.at(index) += bias(operation, row);
        });
        break;
      case Kind::Concat:
        concatenate(operation, output);
        break;
      case Kind::MaxPool:
      case Kind::AvgPool:
        pool(operation, input, output);
        break;
      case Kind::GlobalAvgPool:
        if (elements_of(input.sizes) == 0)
          std::ranges::fill(output.numbers, std::numeric_limits<double>::quiet_NaN());
        for_each_index(input.sizes, [&](const Shape& index) {
          Shape to(index.size(), 0);
          to[0] = index[0];
          to[1] = index[1];
          output.at(to) += input.at(index) * static_cast<double>(elements_of(output.sizes)) /
                           static_cast<double>(elements_of(input.sizes));
        });
        break;
      case Kind::Softmax:
      case Kind::LogSoftmax:
        softmax(operation, input, output);
        break;
      case Kind::LayerNorm:
        normalize(operation, input, output);
        break;
      case Kind::Permute:
        for_each_index(output.sizes, [&](const Shape& index) {
          Shape from(index.size());
          for (std::size_t d = 0; d < index.size(); ++d)
            from[(static_cast<std::size_t>(operation.order[d]) + index.size()) % index.size()] = index[d];
          output.at(index) = input.at(from);
        });
        break;
      case Kind::Slice:
        for_each_index(output.sizes, [&](Shape index) {
          auto& number = output.at(index);
          auto& position = index[axis_of(operation, index.size())];
          position = operation.begin.number + position * operation.step;
          number = input.at(index);
        });
        break;
      case Kind::ResizeNearest:
      case Kind::ResizeBilinear:
        resize(operation, input, output);
        break;
      case Kind::Number:
        break;
    }
    return output;
  }

  /// One number for all channels, or one for each.
  template <typename Constant>
  [[nodiscard]] static double of_channel(const Constant& numbers, std::int64_t channel) {
    return numbers.floats()[elements_of(numbers.shape) == 1 ? 0 : static_cast<std::size_t>(channel)];
  }

  [[nodiscard]] double weight(const Operation& operation, std::size_t index, std::int64_t channel) const {
    const auto& tensor = constant(*operation.weight);
    if (tensor.dtype == Dtype::F32) return number(tensor, index);
    return number(tensor, index) * of_channel(constant(*operation.weight_scales), channel);
  }

  [[nodiscard]] double bias(const Operation& operation, std::int64_t channel) const {
    return operation.bias ? of_channel(constant(*operation.bias), channel) : 0;
  }

  /// Visits each product of a convolution that maps positions of `wide` to those of `narrow`.
  template <typename Visit>
  void for_each_tap(const Operation& operation, const Shape& kernel, const Shape& narrow, const Shape& wide,
                    const Visit& visit) const {
    const auto dimensions = kernel.size();
    const auto stride = operation.stride.empty()
                            ? (operation.kernel.empty() ? Shape(dimensions, 1) : operation.kernel)
                            : operation.stride;
    const auto dilation = spatial(operation.dilation, dimensions, 1);
    const auto before = spatial(operation.padding_begin, dimensions, 0);
    for_each_index(Shape(narrow.begin() + 2, narrow.end()), [&](const Shape& at) {
      for_each_index(kernel, [&](const Shape& tap) {
        Shape position(dimensions);
        bool inside = true;
        for (std::size_t d = 0; d < dimensions; ++d) {
          position[d] = at[d] * stride[d] - before[d] + tap[d] * dilation[d];
          inside = inside && position[d] >= 0 && position[d] < wide[d + 2];
        }
        visit(at, tap, position, inside);
      });
    });
  }

  static Shape indexed(std::int64_t batch, std::int64_t channel, const Shape& position) {
    Shape index{batch, channel};
    index.insert(index.end(), position.begin(), position.end());
    return index;
  }

  void convolve(const Operation& operation, const Real& input, Real& output) const {
    const auto& sizes = constant(*operation.weight).shape;
    const Real shaped{sizes, {}};
    const auto outputs = sizes[0] / operation.groups;
    for (std::int64_t n = 0; n < output.sizes[0]; ++n) {
      for (std::int64_t c = 0; c < sizes[0]; ++c) {
        const auto first = c / outputs * sizes[1];
        for_each_tap(operation, Shape(sizes.begin() + 2, sizes.end()), output.sizes, input.sizes,
                     [&](const Shape& at, const Shape& tap, const Shape& position, bool inside) {
                       for (std::int64_t i = 0; inside && i < sizes[1]; ++i) {
                         output.at(indexed(n, c, at)) +=
                             input.at(indexed(n, first + i, position)) *
                             weight(operation, shaped.offset(indexed(c, i, tap)), c);
                       }
                     });
      }
    }
    add_bias(operation, output);
  }

  void convolve_transposed(const Operation& operation, const Real& input, Real& output) const {
    const auto& sizes = constant(*operation.weight).shape;
    const Real shaped{sizes, {}};
    const auto inputs = sizes[0] / operation.groups;
    for (std::int64_t n = 0; n < output.sizes[0]; ++n) {
      for (std::int64_t i = 0; i < sizes[0]; ++i) {
        const auto first = i / inputs * sizes[1];
        for_each_tap(operation, Shape(sizes.begin() + 2, sizes.end()), input.sizes, output.sizes,
                     [&](const Shape& at, const Shape& tap, const Shape& position, bool inside) {
                       for (std::int64_t c = 0; inside && c < sizes[1]; ++c) {
                         output.at(indexed(n, first + c, position)) +=
                             input.at(indexed(n, i, at)) *
                             weight(operation, shaped.offset(indexed(i, c, tap)), first + c);
                       }
                     });
      }
    }
    add_bias(operation, output);
  }

  void add_bias(const Operation& operation, Real& output) const {
    for_each_index(output.sizes, [&](const Shape& index) { output.at(index) += bias(operation, index[1]); });
  }

  void multiply_weights(const Operation& operation, const Real& input, Real& output) const {
    const auto length = input.sizes.back();
    for_each_index(output.sizes, [&](Shape index) {
      auto& sum = output.at(index);
      const auto column = index.back();
      sum = bias(operation, column);
      for (std::int64_t k = 0; k < length; ++k) {
        index.back() = k;
        sum += input.at(index) * weight(operation, static_cast<std::size_t>(column * length + k), column);
      }
    });
  }

  static void multiply(const Operation& operation, const Real& a, const Real& b, Real& output) {
    const auto rank = output.sizes.size();
    for_each_index(output.sizes, [&](const Shape& index) {
      auto left = index;
      auto right = index;
      for (std::int64_t k = 0; k < a.sizes.back(); ++k) {
        left[rank - 1] = k;
        right[rank - 2] = k;
        output.at(index) += operation.alpha * broadcast_at(a, left) * broadcast_at(b, right);
      }
    });
  }

  void concatenate(const Operation& operation, Real& output) const {
    const auto axis = axis_of(operation, output.sizes.size());
    std::int64_t first = 0;
    for (const int input : operation.inputs) {
      if (shape(input) == Shape{0}) continue;
      for_each_index(shape(input), [&](Shape index) {
        const double number = real(input).at(index);
        index[axis] += first;
        output.at(index) = number;
      });
      first += shape(input)[axis];
    }
  }

  void pool(const Operation& operation, const Real& input, Real& output) const {
    const bool largest = operation.kind == Kind::MaxPool;
    for (std::int64_t n = 0; n < output.sizes[0]; ++n) {
      for (std::int64_t c = 0; c < output.sizes[1]; ++c) {
        Real counts = zeros(output.sizes);
        for_each_tap(operation, operation.kernel, output.sizes, input.sizes,
                     [&](const Shape& at, const Shape&, const Shape& position, bool inside) {
                       const auto index = indexed(n, c, at);
                       if (inside) {
                         const double number = input.at(indexed(n, c, position));
                         auto& result = output.at(index);
                         const bool first = counts.at(index) == 0;
                         result = !largest ? result + number : first ? number : std::max(result, number);
                       }
                       if (inside || operation.count_include_pad) counts.at(index) += 1;
                     });
        for_each_index(Shape(output.sizes.begin() + 2, output.sizes.end()), [&](const Shape& at) {
          auto& result = output.at(indexed(n, c, at));
          const double count = counts.at(indexed(n, c, at));
          if (largest) {
            if (count == 0) result = -std::numeric_limits<double>::infinity();
          } else {
            result /= count;
          }
        });
      }
    }
  }

  static void softmax(const Operation& operation, const Real& input, Real& output) {
    const auto axis = axis_of(operation, input.sizes.size());
    for_each_index(output.sizes, [&](const Shape& index) {
      double sum = 0;
      auto other = index;
      for (std::int64_t i = 0; i < input.sizes[axis]; ++i) {
        other[axis] = i;
        sum += std::exp(input.at(other));
      }
      const double logarithm = input.at(index) - std::log(sum);
      output.at(index) = operation.kind == Kind::LogSoftmax ? logarithm : std::exp(logarithm);
    });
  }

  void normalize(const Operation& operation, const Real& input, Real& output) const {
    const auto length = static_cast<std::size_t>(input.sizes.back());
    for (std::size_t row = 0; row < input.numbers.size(); row += length) {
      double mean = 0;
      double variance = 0;
      for (std::size_t i = 0; i < length; ++i) mean += input.numbers[row + i] / static_cast<double>(length);
      for (std::size_t i = 0; i < length; ++i) {
        variance += std::pow(input.numbers[row + i] - mean, 2) / static_cast<double>(length);
      }
      for (std::size_t i = 0; i < length; ++i) {
        const double normal = (input.numbers[row + i] - mean) / std::sqrt(variance + operation.epsilon);
        const double scale = operation.weight ? constant(*operation.weight).floats()[i] : 1;
        output.numbers[row + i] = normal * scale + bias(operation, static_cast<std::int64_t>(i));
      }
    }
  }

  void normalize_groups(const Operation& operation, const Real& input, Real& output) const {
    const auto channels = input.sizes[1] / operation.groups;
    const auto group_of = [&](const Shape& index) {
      return static_cast<std::size_t>(index[0] * operation.groups + index[1] / channels);
    };
    const auto groups = static_cast<std::size_t>(input.sizes[0] * operation.groups);
    const auto count = static_cast<double>(input.numbers.size()) / static_cast<double>(groups);
    std::vector<double> means(groups);
    std::vector<double> variances(groups);
    for_each_index(input.sizes, [&](const Shape& i) { means[group_of(i)] += input.at(i) / count; });
    for_each_index(input.sizes, [&](const Shape& i) {
      variances[group_of(i)] += std::pow(input.at(i) - means[group_of(i)], 2) / count;
    });
    for_each_index(input.sizes, [&](const Shape& i) {
      const auto group = group_of(i);
      const double normal = (input.at(i) - means[group]) / std::sqrt(variances[group] + operation.epsilon);
      output.at(i) = normal * channel_weight(operation, i[1]) + bias(operation, i[1]);
    });
  }

  [[nodiscard]] double channel_weight(const Operation& operation, std::int64_t channel) const {
    return operation.weight ? of_channel(constant(*operation.weight), channel) : 1;
  }

  void scale_channels(const Operation& operation, const Real& input, Real& output) const {
    const bool slopes = operation.kind == Kind::Prelu;
    const auto axis = slopes ? 1 : axis_of(operation, input.sizes.size());
    for_each_index(input.sizes, [&](const Shape& index) {
      const double x = input.at(index);
      const std::int64_t channel = axis < index.size() ? index[axis] : 0;  // slopes of a vector: one
      const double weight = channel_weight(operation, channel);
      if (slopes) {
        output.at(index) = x > 0 ? x : weight * x;
      } else {
        output.at(index) = x * weight + bias(operation, channel);
      }
    });
  }

  static double step(const Operation& operation, const Real& input, const Real& output, std::size_t d) {
    return operation.size.empty()
               ? 1 / operation.scale_factors[d]
               : static_cast<double>(input.sizes[d + 2]) / static_cast<double>(output.sizes[d + 2]);
  }

  static void resize(const Operation& operation, const Real& input, Real& output) {
    const auto dimensions = output.sizes.size() - 2;
    for_each_index(output.sizes, [&](const Shape& index) {
      if (operation.kind == Kind::ResizeNearest) {
        Shape from = index;
        for (std::size_t d = 0; d < dimensions; ++d) {
          const auto position = static_cast<std::int64_t>(
              static_cast<float>(index[d + 2]) * static_cast<float>(step(operation, input, output, d)));
          from[d + 2] = std::min(position, input.sizes[d + 2] - 1);
        }
        output.at(index) = input.at(from);
        return;
      }
      for_each_index({2, 2}, [&](const Shape& corner) {
        Shape from = index;
        double share = 1;
        for (std::size_t d = 0; d < 2; ++d) {
          const double position = std::max(
              0.0, (static_cast<double>(index[d + 2]) + 0.5) * step(operation, input, output, d) - 0.5);
          const auto first = std::min(static_cast<std::int64_t>(position), input.sizes[d + 2] - 1);
          const double fraction = position - static_cast<double>(first);
          share *= corner[d] == 1 ? fraction : 1 - fraction;
          from[d + 2] = std::min(first + corner[d], input.sizes[d + 2] - 1);
        }
        output.at(index) += share * input.at(from);
      });
    });
  }

  const Model& model_;
  std::vector<Shape> shapes_{};
  std::vector<Real> values_;
};

}  // namespace

std::vector<Tensor> reference(const Model& model, const std::vector<Tensor>& inputs, const Shape& integers) {
  return Interpreter(model).run(inputs, integers);
}

}  // namespace tsq::runtime::test
