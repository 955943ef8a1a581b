#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/primitives/builders.h"
#include "runtime/primitives/layouts.h"
#include "runtime/program/error.h"
#include "runtime/program/shapes.h"

namespace tsq::runtime {
namespace {

/// How many places an image has.
std::int64_t places_of_image(const Shape& sizes) {
  return elements_of(Shape(sizes.begin() + 2, sizes.end()));
}

/// Places of an image are counted in 32 bits.
bool has_few_places(const Shape& sizes) {
  return places_of_image(sizes) <= std::numeric_limits<std::int32_t>::max();
}

/// The input position for each output position, row by row. PyTorch's rule: floor(output / factor).
std::vector<std::int32_t> nearest_sources(const Operation& operation, const Shape& input,
                                          const Shape& output) {
  std::vector<std::int32_t> sources{0};
  for (std::size_t d = 2; d < output.size(); ++d) {
    const double step = operation.size.empty()
                            ? 1 / operation.scale_factors[d - 2]
                            : static_cast<double>(input[d]) / static_cast<double>(output[d]);
    std::vector<std::int32_t> finer;
    finer.reserve(sources.size() * static_cast<std::size_t>(output[d]));
    for (const auto source : sources) {
      for (std::int64_t i = 0; i < output[d]; ++i) {
        // In single precision, as PyTorch counts.
        const auto position =
            static_cast<std::int64_t>(std::floor(static_cast<float>(i) * static_cast<float>(step)));
        finer.push_back(source * static_cast<std::int32_t>(input[d]) +
                        static_cast<std::int32_t>(std::min(position, input[d] - 1)));
      }
    }
    sources = std::move(finer);
  }
  return sources;
}

/// Centres of pixels correspond (PyTorch's align_corners=False).
std::vector<Taps> bilinear_taps(const Operation& operation, std::size_t dimension, std::int64_t input,
                                std::int64_t output) {
  const double step = operation.size.empty() ? 1 / operation.scale_factors[dimension]
                                             : static_cast<double>(input) / static_cast<double>(output);
  std::vector<Taps> taps;
  taps.reserve(static_cast<std::size_t>(output));
  for (std::int64_t i = 0; i < output; ++i) {
    const double position = std::max(0.0, (static_cast<double>(i) + 0.5) * step - 0.5);
    const auto first = std::min(static_cast<std::int64_t>(position), input - 1);
    const auto second = std::min(first + 1, input - 1);
    taps.push_back({static_cast<std::int32_t>(first), static_cast<std::int32_t>(second),
                    static_cast<float>(position - static_cast<double>(first))});
  }
  return taps;
}

}  // namespace

bool build_concat(Compilation& compilation) {
  const auto& operation = compilation.operation();
  if (is_left_to_reader(compilation.program(), operation)) return true;
  const auto& reserved = compilation.reserved(operation.output);
  const View whole = reserved ? *reserved : compilation.any_destination(operation.output);
  const auto axis = axis_of(operation, whole.sizes.size());
  std::int64_t position = 0;
  for (const int input : operation.inputs) {
    const View part = part_of(whole, compilation.shape(input), axis, position);
    position += part.sizes[axis];
    const View written = compilation.view(input);
    const auto& place = compilation.reserved(input);
    const bool in_place = place && place->buffer == part.buffer && place->offset == part.offset;
    if (!in_place) compilation.add_copy(written, part);
  }
  compilation.deliver(operation.output, whole);
  return true;
}

bool build_reshape(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View input = compilation.view(operation.inputs[0]);
  const auto& sizes = compilation.shape(operation.output);
  auto view = reshaped(input, sizes);
  if (!view) view = reshaped(compilation.with_strides(input, row_major_strides(input.sizes)), sizes);
  compilation.deliver(operation.output, *view);
  return true;
}

bool build_permute(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View input = compilation.view(operation.inputs[0]);
  View view = input;
  for (std::size_t d = 0; d < operation.order.size(); ++d) {
    const auto from = static_cast<std::size_t>(operation.order[d]);
    view.sizes[d] = input.sizes[from];
    view.strides[d] = input.strides[from];
  }
  compilation.deliver(operation.output, view);
  return true;
}

bool build_expand(Compilation& compilation) {
  const auto& operation = compilation.operation();
  View view = compilation.view(operation.inputs[0]);
  view.strides = broadcast_strides(view, compilation.shape(operation.output));
  view.sizes = compilation.shape(operation.output);
  compilation.deliver(operation.output, view);
  return true;
}

bool build_slice(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View input = compilation.view(operation.inputs[0]);
  const auto axis = axis_of(operation, input.sizes.size());
  const bool moves = operation.begin.is_computed();
  View part = part_of(input, compilation.shape(operation.output), axis, moves ? 0 : operation.begin.number);
  if (moves) part.moves.push_back({static_cast<std::size_t>(operation.begin.integer), input.strides[axis]});
  part.strides[axis] *= operation.step;
  compilation.deliver(operation.output, part);
  return true;
}

bool build_pad(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View input = compilation.view(operation.inputs[0]);
  const View output = compilation.any_destination(operation.output);
  const auto first = input.sizes.size() - operation.padding_begin.size();
  const auto fill = [&](const View& border) {
    View number = compilation.number_view(static_cast<float>(operation.fill));
    number.sizes = border.sizes;
    number.strides.assign(border.sizes.size(), 0);
    compilation.add_copy(number, border, "fill");
  };
  // The borders of each dimension, and what they leave for the next one.
  View inside = output;
  for (std::size_t d = 0; d < operation.padding_begin.size(); ++d) {
    Shape sizes = inside.sizes;
    auto& size = sizes[first + d];
    size = operation.padding_begin[d];
    if (size > 0) fill(part_of(inside, sizes, first + d, 0));
    size = operation.padding_end[d];
    if (size > 0) fill(part_of(inside, sizes, first + d, inside.sizes[first + d] - size));
    size = input.sizes[first + d];
    inside = part_of(inside, sizes, first + d, operation.padding_begin[d]);
  }
  compilation.add_copy(input, inside);
  compilation.deliver(operation.output, output);
  return true;
}

bool build_embedding(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View read = compilation.view(operation.inputs[0]);
  const View input = compilation.with_strides(read, row_major_strides(read.sizes));
  const View output =
      compilation.destination(operation.output, row_major_strides(compilation.shape(operation.output)));
  const auto& weight = compilation.constant(*operation.weight);
  const auto floats_of = [&](const std::optional<int>& index) {
    return index ? compilation.constant(*index).floats() : nullptr;
  };
  const EmbedTask task{.weight = weight.data.get(),
                       .dtype = weight.dtype,
                       .scales = floats_of(operation.weight_scales),
                       .addends = floats_of(operation.bias),
                       .length = weight.shape[1],
                       .to = rounding_of(output)};
  std::vector<std::shared_ptr<const void>> held{weight.data};  // what the task points to
  for (const auto& index : {operation.weight_scales, operation.bias}) {
    if (index) held.push_back(compilation.constant(*index).data);
  }
  const auto count = elements_of(input.sizes);
  const auto check = [count, rows = weight.shape[0]](std::byte* const* pointers) {
    const auto* numbers = reinterpret_cast<const std::int64_t*>(pointers[1]);
    for (std::int64_t i = 0; i < count; ++i) {
      if (numbers[i] >= 0 && numbers[i] < rows) continue;
      throw ProgramError("the call", "it reads row " + std::to_string(numbers[i]) + " of an embedding",
                         "rows are those from 0 to " + std::to_string(rows - 1));
    }
  };
  const View views[] = {output, input};
  compilation.add_kernel(
      "embedding", views, count,
      [task, held = std::move(held)](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
        kernels().embed(task, pointers[0], pointers[1], begin, end);
      },
      check);
  compilation.deliver(operation.output, output);
  return true;
}

bool build_resize_nearest(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const auto& sizes = compilation.shape(operation.output);
  if (!has_few_places(compilation.shape(operation.inputs[0]))) return false;
  const View place = compilation.destination(operation.output, channels_last_strides(sizes));
  // While it is made there is one of fewer dimensions, too.
  compilation.hold(2 * places_of_image(sizes), sizeof(std::int32_t));
  View read = compilation.view(operation.inputs[0]);
  if (place.dtype == Dtype::U8) read = compilation.as_unsigned(read);
  const View input = compilation.channels_last(read);
  const View output = compilation.quantized_like(input, place);
  ResizeNearestTask task{.bytes = sizes[1] * bytes_of(input.dtype),
                         .input_positions = elements_of(input.sizes) / input.sizes[0] / input.sizes[1],
                         .sources = nearest_sources(operation, input.sizes, sizes)};
  const auto units = sizes[0] * static_cast<std::int64_t>(task.sources.size());
  const View views[] = {output, input};
  compilation.add_kernel(
      "resize_nearest", views, units,
      [task = std::move(task)](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
        kernels().resize_nearest(task, pointers[0], pointers[1], begin, end);
      });
  if (output.buffer != place.buffer) compilation.add_copy(output, place);
  compilation.deliver(operation.output, place);
  return true;
}

bool build_resize_bilinear(Compilation& compilation) {
  const auto& operation = compilation.operation();
  const View read = compilation.view(operation.inputs[0]);
  if (read.sizes.size() != 4) return false;
  const View input = compilation.channels_last(read);
  const auto& sizes = compilation.shape(operation.output);
  const View output = compilation.destination(operation.output, channels_last_strides(sizes));
  compilation.hold(sizes[2] + sizes[3], sizeof(Taps));
  ResizeBilinearTask task{.channels = sizes[1],
                          .input_height = input.sizes[2],
                          .input_width = input.sizes[3],
                          .rows = bilinear_taps(operation, 0, input.sizes[2], sizes[2]),
                          .columns = bilinear_taps(operation, 1, input.sizes[3], sizes[3]),
                          .from = input.dtype,
                          .to = rounding_of(output, input.scale, -input.scale * input.zero_point)};
  const auto units = sizes[0] * sizes[2];
  const View views[] = {output, input};
  compilation.add_kernel(
      "resize_bilinear", views, units,
      [task = std::move(task)](std::byte* const* pointers, std::int64_t begin, std::int64_t end) {
        kernels().resize_bilinear(task, pointers[0], pointers[1], begin, end);
      });
  compilation.deliver(operation.output, output);
  return true;
}

}  // namespace tsq::runtime
