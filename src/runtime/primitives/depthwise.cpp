#include "runtime/kernels/depthwise.h"

#include <algorithm>

#include "runtime/primitives/builders.h"
#include "runtime/primitives/epilogue.h"
#include "runtime/primitives/weights.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

bool only_clamps(const Operation& operation) {
  return std::ranges::all_of(operation.post_ops, [](const PostOp& post_op) {
    return post_op.kind == PostOpKind::Relu || post_op.kind == PostOpKind::Clamp;
  });
}

/// Windows that the kernel has, of enough channels to fill its registers.
bool takes(const Compilation& compilation) {
  const auto& operation = compilation.operation();
  const auto& weight = compilation.constant(*operation.weight);
  const auto& input = compilation.shape(operation.inputs[0]);
  if (depthwise_kernel() == nullptr || input.size() != 4 || !is_int8(weight.dtype)) return false;
  if (!is_depthwise(operation, weight.shape) || weight.shape[0] != operation.groups) return false;
  const auto channels = weight.shape[0];
  const auto blocks = (channels + kDepthwiseChannels - 1) / kDepthwiseChannels;
  const auto kernel = weight.shape[2];
  const auto stride = spatial(operation.stride, 2, 1);
  return (kernel == 3 || kernel == 5 || kernel == 7) && weight.shape[3] == kernel && stride[0] == stride[1] &&
         stride[0] <= 2 && spatial(operation.dilation, 2, 1) == Shape{1, 1} &&
         4 * channels >= 3 * blocks * kDepthwiseChannels && only_clamps(operation);
}

/// A list for whole blocks of channels, in the order of the kernel's registers.
std::vector<float> by_quarters(const std::vector<float>& numbers, std::int64_t channels) {
  const auto blocks = (channels + kDepthwiseChannels - 1) / kDepthwiseChannels;
  std::vector<float> ordered(static_cast<std::size_t>(blocks * kDepthwiseChannels), 0);
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto within = c % kDepthwiseChannels;
    const auto place = c - within + within % 16 / 4 * 16 + within / 16 * 4 + within % 4;
    const auto index = numbers.size() == 1 ? 0 : static_cast<std::size_t>(c);
    if (!numbers.empty()) ordered[static_cast<std::size_t>(place)] = numbers[index];
  }
  return ordered;
}

std::vector<std::int8_t> by_blocks(const DepthwiseTask& task, const std::int8_t* weights) {
  const auto blocks = (task.channels + kDepthwiseChannels - 1) / kDepthwiseChannels;
  const auto block_size = task.taps() * kDepthwiseRows * kDepthwiseChannels;
  std::vector<std::int8_t> ordered(static_cast<std::size_t>(blocks * block_size), 0);
  for (std::int64_t c = 0; c < task.channels; ++c) {
    for (std::int64_t i = 0; i < task.kernel * task.kernel; ++i) {
      const auto place =
          c / kDepthwiseChannels * block_size +
          depthwise_weight_index(task, c % kDepthwiseChannels, i / task.kernel, i % task.kernel);
      ordered[static_cast<std::size_t>(place)] = weights[c * task.kernel * task.kernel + i];
    }
  }
  return ordered;
}

}  // namespace

bool build_depthwise(Compilation& compilation) {
  if (!takes(compilation)) return false;
  const auto& operation = compilation.operation();
  const auto& sizes = compilation.shape(operation.output);
  const View output = compilation.destination(operation.output, channels_last_strides(sizes));
  if (output.dtype != Dtype::U8) return false;
  const View input =
      compilation.channels_last(compilation.as_unsigned(compilation.view(operation.inputs[0])));
  const auto& weight = compilation.constant(*operation.weight);
  DepthwiseTask task{.channels = sizes[1],
                     .input_height = input.sizes[2],
                     .input_width = input.sizes[3],
                     .output_height = sizes[2],
                     .output_width = sizes[3],
                     .kernel = weight.shape[2],
                     .stride = spatial(operation.stride, 2, 1)[0],
                     .padding_top = spatial(operation.padding_begin, 2, 0)[0],
                     .padding_left = spatial(operation.padding_begin, 2, 0)[1],
                     .zero_point = static_cast<std::uint8_t>(input.zero_point)};
  Rounding bounds = rounding_of(output);
  narrow(bounds, output, operation.post_ops);
  task.low = bounds.low;
  task.high = bounds.high;
  // The zero point stands in the padding too, so that it adds the same to every sum.
  const Epilogue epilogue{.unit = output.scale, .offset = static_cast<double>(output.zero_point)};
  struct Held {
    std::vector<std::int8_t> weights;
    std::vector<float> scales;
    std::vector<float> offsets;
  };
  const auto held = std::make_shared<const Held>(
      Held{by_blocks(task, weight.int8s()),
           by_quarters(folded_scales(compilation, input, epilogue), task.channels),
           by_quarters(folded_bias(compilation, input, epilogue, true), task.channels)});
  const auto blocks = (task.channels + kDepthwiseChannels - 1) / kDepthwiseChannels;
  const View views[] = {output, input};
  compilation.add_kernel(
      "depthwise", views, sizes[0] * sizes[2] * blocks,
      [task, held](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
        const DepthwiseWeights weights{held->weights.data(), held->scales.data(), held->offsets.data()};
        depthwise_kernel()(task, weights, pointers[0], pointers[1], begin, end);
      });
  compilation.deliver(operation.output, output);
  return true;
}

}  // namespace tsq::runtime
