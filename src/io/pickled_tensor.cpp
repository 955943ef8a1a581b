#include "io/pickled_tensor.h"

#include <c10/core/QScheme.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tsq::io {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kKnownDTypes = static_cast<std::int64_t>(c10::ScalarType::QUInt2x4) + 1;

/// Reads the parts of a tuple by their places and kinds.
class Parts {
 public:
  Parts(const std::vector<PickledValue>& values, std::size_t tuple)
      : values_(values), tuple_(values[tuple]) {}

  [[nodiscard]] const PickledValue* get(std::size_t index, PickledKind kind) const {
    if (tuple_.kind != PickledKind::Tuple || index >= tuple_.parts.size()) return nullptr;
    const PickledValue& part = values_[tuple_.parts[index]];
    return part.kind == kind ? &part : nullptr;
  }
  [[nodiscard]] std::optional<std::int64_t> integer(std::size_t index) const {
    const PickledValue* part = get(index, PickledKind::Integer);
    return part == nullptr ? std::nullopt : std::optional(part->number);
  }
  [[nodiscard]] std::optional<Sizes> integers(std::size_t index) const {
    const PickledValue* list = get(index, PickledKind::Tuple);
    if (list == nullptr) return std::nullopt;
    Sizes numbers;
    for (const std::size_t part : list->parts) {
      if (values_[part].kind != PickledKind::Integer) return std::nullopt;
      numbers.push_back(values_[part].number);
    }
    return numbers;
  }
  /// A part that is a tuple.
  [[nodiscard]] std::optional<Parts> parts(std::size_t index) const {
    if (get(index, PickledKind::Tuple) == nullptr) return std::nullopt;
    return Parts(values_, tuple_.parts[index]);
  }

 private:
  const std::vector<PickledValue>& values_;
  const PickledValue& tuple_;
};

std::int64_t product(std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(left, right, &result)) throw PickleFault("has numbers that leave 64 bits");
  return result;
}

std::int64_t sum(std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(left, right, &result)) throw PickleFault("has numbers that leave 64 bits");
  return result;
}

struct Layout {
  std::int64_t offset;
  Sizes sizes;
  Sizes strides;
};

/// How many elements of its storage a tensor needs from the first of it.
std::int64_t reach_of(const Layout& layout) {
  std::int64_t reach = sum(layout.offset, 1);
  for (std::size_t d = 0; d < layout.sizes.size(); ++d)
    reach = sum(reach, product(layout.sizes[d] - 1, layout.strides[d]));
  return reach;
}

std::int64_t elements_of(const Layout& layout, std::int64_t bytes, std::int64_t item) {
  const auto is_negative = [](std::int64_t number) { return number < 0; };
  if (layout.sizes.size() != layout.strides.size() || layout.offset < 0 ||
      std::ranges::any_of(layout.sizes, is_negative) || std::ranges::any_of(layout.strides, is_negative)) {
    throw PickleFault(fmt::format("has a tensor of the shape [{}] with the strides [{}]",
                                  fmt::join(layout.sizes, ", "), fmt::join(layout.strides, ", ")));
  }
  std::int64_t elements = 1;
  for (const std::int64_t size : layout.sizes) elements = product(elements, size);
  product(elements, item);
  if (elements > 0 && product(reach_of(layout), item) > bytes) {
    throw PickleFault(
        fmt::format("has a tensor of the shape [{}] that reaches beyond its storage of {} bytes",
                    fmt::join(layout.sizes, ", "), bytes));
  }
  return elements;
}

/// Are the scales and zero points of channels as many as there are channels?
bool has_channels(const Parts& quantizer, const Sizes& sizes) {
  const PickledValue* scales = quantizer.get(1, PickledKind::Tensor);
  const PickledValue* zero_points = quantizer.get(2, PickledKind::Tensor);
  const std::optional<std::int64_t> axis = quantizer.integer(3);
  if (scales == nullptr || zero_points == nullptr || !axis) return false;
  const bool is_axis = *axis >= 0 && *axis < static_cast<std::int64_t>(sizes.size());
  if (!is_axis || scales->elements != sizes[static_cast<std::size_t>(*axis)] ||
      zero_points->elements != scales->elements) {
    throw PickleFault("has a quantized tensor whose scales are not as many as its channels");
  }
  return true;
}

/// Does LibTorch take what stands for the quantizer?
bool has_quantizer(const Parts& tensor, const Sizes& sizes) {
  const std::optional<Parts> quantizer = tensor.parts(4);
  if (!quantizer) return false;
  const std::optional<std::int64_t> scheme = quantizer->integer(0);
  if (!scheme) return false;
  const auto known = static_cast<c10::QScheme>(*scheme);
  if (known == c10::kPerTensorAffine) return true;
  const bool by_channel = known == c10::kPerChannelAffine || known == c10::kPerChannelAffineFloatQParams;
  return by_channel && has_channels(*quantizer, sizes);
}

}  // namespace

std::size_t item_size(std::int8_t dtype) { return c10::elementSize(static_cast<c10::ScalarType>(dtype)); }

std::optional<NamedStorage> storage_of(const std::vector<PickledValue>& values, std::size_t described) {
  const Parts parts(values, described);
  const PickledValue* key = parts.get(2, PickledKind::Text);
  const std::optional<std::int64_t> dtype = parts.integer(1);
  const PickledValue* device = parts.get(3, PickledKind::Text);
  const std::optional<std::int64_t> elements = parts.integer(4);
  if (key == nullptr || !dtype || !elements || device == nullptr) return std::nullopt;
  // From other devices tensors are loaded to the CPU.
  if (device->text.starts_with("meta"))
    throw PickleFault("has a tensor on the device 'meta', which holds no numbers");
  if (*dtype < 0 || *dtype >= kKnownDTypes) throw PickleFault("has a storage of a dtype that does not exist");
  const auto number = static_cast<std::int8_t>(*dtype);
  const std::int64_t bytes = product(*elements, static_cast<std::int64_t>(item_size(number)));
  if (bytes < 0) throw PickleFault(fmt::format("has a storage of {} elements", *elements));
  return NamedStorage{
      .facts = {.key = std::string(key->text), .bytes = bytes},
      .value = {.kind = PickledKind::Tensor, .dtype = number, .number = bytes, .elements = *elements}};
}

std::optional<PickledValue> tensor_of(const std::vector<PickledValue>& values, std::size_t described,
                                      bool is_quantized) {
  const Parts parts(values, described);
  const PickledValue* storage = parts.get(0, PickledKind::Tensor);
  const std::optional<std::int64_t> offset = parts.integer(1);
  std::optional<Sizes> sizes = parts.integers(2);
  std::optional<Sizes> strides = parts.integers(3);
  if (storage == nullptr || !offset || !sizes || !strides) return std::nullopt;
  if (is_quantized && !has_quantizer(parts, *sizes)) return std::nullopt;
  const auto item = static_cast<std::int64_t>(item_size(storage->dtype));
  const Layout layout{.offset = *offset, .sizes = std::move(*sizes), .strides = std::move(*strides)};
  return PickledValue{.kind = PickledKind::Tensor,
                      .dtype = storage->dtype,
                      .number = storage->number,
                      .elements = elements_of(layout, storage->number, item)};
}

}  // namespace tsq::io
