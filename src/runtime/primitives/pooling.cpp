#include <algorithm>
#include <numeric>

#include "runtime/primitives/builders.h"
#include "runtime/primitives/epilogue.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

dnnl::algorithm algorithm_of(const Operation& operation) {
  if (operation.kind == Kind::MaxPool) return dnnl::algorithm::pooling_max;
  return operation.count_include_pad ? dnnl::algorithm::pooling_avg_include_padding
                                     : dnnl::algorithm::pooling_avg_exclude_padding;
}

bool pads(const Operation& operation) {
  const auto nonzero = [](std::int64_t padding) { return padding != 0; };
  return std::ranges::any_of(operation.padding_begin, nonzero) ||
         std::ranges::any_of(operation.padding_end, nonzero);
}

}  // namespace

bool build_pool(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const auto& sizes = compilation.shape(operation.output);
  const View place = compilation.destination(operation.output, channels_last_strides(sizes));
  View input = compilation.view(operation.inputs[0]);
  if (place.dtype == Dtype::U8) input = compilation.as_unsigned(input);
  // Padding that counts is the real number 0, which oneDNN takes for the byte 0; and an average is rounded
  // once.
  const bool averages = operation.kind == Kind::AvgPool;
  const bool counts_padding = operation.count_include_pad && pads(operation) && input.zero_point != 0;
  if (averages && (counts_padding || !same_quantization(input, place))) input = compilation.as_float(input);
  input = compilation.channels_last(input);
  const View output = compilation.quantized_like(input, place);

  const auto dimensions = operation.kernel.size();
  auto dilation = spatial(operation.dilation, dimensions, 1);
  for (auto& number : dilation) --number;
  const auto source_desc = channels_last_desc(input.dtype, input.sizes);
  const auto output_desc = channels_last_desc(output.dtype, sizes);
  const dnnl::pooling_forward::primitive_desc descriptor(
      cpu_engine(), dnnl::prop_kind::forward_inference, algorithm_of(operation), source_desc, output_desc,
      operation.stride.empty() ? operation.kernel : operation.stride, operation.kernel, dilation,
      spatial(operation.padding_begin, dimensions, 0), pool_padding_end(operation, input.sizes, sizes),
      attributes_with({}));
  compilation.add_primitive(descriptor, dnnl::pooling_forward(descriptor),
                            to_text(input.sizes) + " -> " + to_text(sizes),
                            {compilation.operand(DNNL_ARG_SRC, input, source_desc),
                             compilation.operand(DNNL_ARG_DST, output, output_desc)});
  if (output.buffer != place.buffer) compilation.add_copy(output, place);
  compilation.deliver(operation.output, place);
  return true;
}

bool build_global_mean(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View input = compilation.view(operation.inputs[0]);
  Shape positions(std::max<std::size_t>(input.sizes.size(), 2) - 2);
  std::iota(positions.begin(), positions.end(), 2);
  const bool in_place = same_strides(input.sizes, input.strides, channels_last_strides(input.sizes));
  return in_place && !positions.empty() && operation.axes == positions && build_global_pool(compilation);
}

bool build_global_pool(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View input = compilation.channels_last(compilation.view(operation.inputs[0]));
  const auto& sizes = compilation.shape(operation.output);
  const View output = compilation.destination(operation.output, row_major_strides(sizes));
  GlobalPoolTask task{.batch = input.sizes[0],
                      .positions = elements_of(input.sizes) / input.sizes[0] / input.sizes[1],
                      .channels = input.sizes[1],
                      .from = input.dtype};
  task.to =
      rounding_of(output, input.scale / static_cast<double>(task.positions), -input.scale * input.zero_point);
  const auto units = task.batch * ((task.channels + kPoolChannels - 1) / kPoolChannels);
  const View views[] = {output, input};
  compilation.add_kernel("global_pool", views, units,
                         [task](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
                           kernels().global_pool(task, pointers[0], pointers[1], begin, end);
                         });
  compilation.deliver(operation.output, output);
  return true;
}

bool build_adaptive_pool(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const auto& sizes = compilation.shape(operation.output);
  const View input = compilation.channels_last(compilation.view(operation.inputs[0]));
  const View output = compilation.destination(operation.output, channels_last_strides(sizes));
  for (std::size_t d = 2; d < sizes.size(); ++d) compilation.hold(sizes[d], sizeof(Window));
  PoolWindowsTask task{.largest = operation.kind == Kind::AdaptiveMaxPool,
                       .channels = sizes[1],
                       .windows = {{{{}}, {{}}, {{}}}},
                       .from = input.dtype,
                       .to = rounding_of(output, input.scale, -input.scale * input.zero_point)};
  for (std::size_t d = 2; d < sizes.size(); ++d) {
    const auto place = 3 - sizes.size() + d;
    task.sizes[place] = input.sizes[d];
    task.windows[place].clear();
    for (std::int64_t i = 0; i < sizes[d]; ++i) {
      task.windows[place].push_back(
          {i * input.sizes[d] / sizes[d], ((i + 1) * input.sizes[d] + sizes[d] - 1) / sizes[d]});
    }
  }
  const View views[] = {output, input};
  compilation.add_kernel("adaptive_pool", views, elements_of(sizes) / sizes[1],
                         [task](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
                           kernels().pool_windows(task, pointers[0], pointers[1], begin, end);
                         });
  compilation.deliver(operation.output, output);
  return true;
}

}  // namespace tsq::runtime
