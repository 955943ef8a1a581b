#include "runtime/primitives/view.h"

#include <limits>

namespace tsq::runtime {

Shape row_major_strides(const Shape& sizes) {
  Shape strides(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

Shape channels_last_strides(const Shape& sizes) {
  if (sizes.size() < 3) return row_major_strides(sizes);
  Shape strides(sizes.size(), 1);
  std::int64_t stride = sizes[1];
  for (std::size_t d = sizes.size(); d-- > 2;) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  strides[0] = stride;
  return strides;
}

std::int64_t span_of(const Shape& sizes, const Shape& strides) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  return last + 1;
}

bool has_channels_last(const View& view) {
  const auto& sizes = view.sizes;
  if (sizes.size() < 3 || (sizes[1] > 1 && view.strides[1] != 1)) return false;
  std::int64_t inner = sizes[1];
  for (std::size_t i = sizes.size(); i-- > 1;) {
    const auto d = i == 1 ? 0 : i;  // positions from the last, then the batch
    if (sizes[d] == 1) continue;
    if (view.strides[d] < inner) return false;
    inner = view.strides[d] * sizes[d];
  }
  return true;
}

View part_of(const View& whole, const Shape& sizes, std::size_t axis, std::int64_t position) {
  View part = whole;
  part.sizes = sizes;
  part.offset += position * part.strides[axis];
  return part;
}

bool same_strides(const Shape& sizes, const Shape& a, const Shape& b) {
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1 && a[d] != b[d]) return false;
  }
  return true;
}

bool same_quantization(const View& a, const View& b) {
  return a.dtype == b.dtype && a.scale == b.scale && a.zero_point == b.zero_point;
}

namespace {

/// Dimensions of more than one element, neighbours joined where one stride serves both.
void join(const View& view, Shape& sizes, Shape& strides) {
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 1) continue;
    if (!sizes.empty() && strides.back() == view.strides[d] * view.sizes[d]) {
      sizes.back() *= view.sizes[d];
      strides.back() = view.strides[d];
    } else {
      sizes.push_back(view.sizes[d]);
      strides.push_back(view.strides[d]);
    }
  }
}

}  // namespace

std::optional<View> reshaped(const View& view, const Shape& sizes) {
  Shape joined;
  Shape joined_strides;
  join(view, joined, joined_strides);
  View result = view;
  result.sizes = sizes;
  result.strides.assign(sizes.size(), 1);
  std::size_t left = joined.size();
  std::int64_t filled = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (left == 0) return std::nullopt;
    result.strides[d] = joined_strides[left - 1] * filled;
    filled *= sizes[d];
    if (joined[left - 1] % filled != 0) return std::nullopt;
    if (joined[left - 1] == filled) {
      --left;
      filled = 1;
    }
  }
  return result;
}

Shape broadcast_strides(const View& view, const Shape& sizes) {
  Shape strides(sizes.size(), 0);
  const auto missing = sizes.size() - view.sizes.size();
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] > 1) strides[d + missing] = view.strides[d];
  }
  return strides;
}

dnnl::memory::data_type data_type_of(Dtype dtype) {
  using Type = dnnl::memory::data_type;
  return dtype == Dtype::F32 ? Type::f32 : dtype == Dtype::U8 ? Type::u8 : Type::s8;
}

dnnl::memory::desc desc_of(const View& view) { return {view.sizes, data_type_of(view.dtype), view.strides}; }

dnnl::memory::desc channels_last_desc(Dtype dtype, const Shape& sizes) {
  return {sizes, data_type_of(dtype), channels_last_strides(sizes)};
}

dnnl::memory::desc row_major_desc(Dtype dtype, const Shape& sizes) {
  return {sizes, data_type_of(dtype), row_major_strides(sizes)};
}

Affine real_of(const View& view) {
  return {static_cast<float>(view.scale), static_cast<float>(view.zero_point)};
}

Rounding rounding_of(const View& view, double scale, double offset) {
  constexpr auto kInfinity = std::numeric_limits<float>::infinity();
  if (view.dtype == Dtype::F32) {
    return {view.dtype, static_cast<float>(scale), static_cast<float>(offset), -kInfinity, kInfinity};
  }
  const float lowest = view.dtype == Dtype::U8 ? 0.0F : -128.0F;
  return {view.dtype, static_cast<float>(scale / view.scale),
          static_cast<float>(offset / view.scale + view.zero_point), lowest, lowest + 255.0F};
}

}  // namespace tsq::runtime
