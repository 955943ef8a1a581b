#pragma once

#include <cstdint>
#include <dnnl.hpp>

#include "runtime/kernels/kernels.h"
#include "runtime/program/program.h"

/// Where a value lies while a compiled program runs.
namespace tsq::runtime {

/// The place at which moving slice `slice` begins in a call, times `stride`.
struct Move {
  std::size_t slice = 0;
  std::int64_t stride = 0;

  friend bool operator==(const Move&, const Move&) = default;
};

/// A tensor of any strides inside of a buffer. Offset and strides count elements.
struct View {
  Dtype dtype = Dtype::F32;
  double scale = 1;
  int zero_point = 0;
  Shape sizes{};
  Shape strides{};
  int buffer = -1;
  std::int64_t offset = 0;
  std::vector<Move> moves{};  ///< what each call adds to the offset
};

Shape row_major_strides(const Shape& sizes);
/// The batch, then the positions, then the channels; row-major for fewer than three dimensions.
Shape channels_last_strides(const Shape& sizes);

/// Elements from the first to the last in memory, gaps counted.
std::int64_t span_of(const Shape& sizes, const Shape& strides);
/// Are the channels last, perhaps with gaps between positions, as in a slice of channels?
bool has_channels_last(const View& view);

/// The part of these sizes that begins at a position of `axis`.
View part_of(const View& whole, const Shape& sizes, std::size_t axis, std::int64_t position);

/// Equal strides, those of dimensions of one element left out.
bool same_strides(const Shape& sizes, const Shape& a, const Shape& b);
bool same_quantization(const View& a, const View& b);

/// The same elements as another shape, if strides can say it.
std::optional<View> reshaped(const View& view, const Shape& sizes);
/// Strides with which `view` is read as a larger tensor: 0 where it broadcasts.
Shape broadcast_strides(const View& view, const Shape& sizes);

dnnl::memory::data_type data_type_of(Dtype dtype);
dnnl::memory::desc desc_of(const View& view);
/// With the standard strides of its layout where dimensions have one element: oneDNN compares them.
dnnl::memory::desc channels_last_desc(Dtype dtype, const Shape& sizes);
dnnl::memory::desc row_major_desc(Dtype dtype, const Shape& sizes);

/// real = (q - zero_point) * scale.
Affine real_of(const View& view);
/// Writes real numbers that were multiplied by `scale` and increased by `offset` into `view`'s dtype.
Rounding rounding_of(const View& view, double scale = 1, double offset = 0);

}  // namespace tsq::runtime
