#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "io/pickle_values.h"

namespace tsq::io {

struct NamedStorage {
  PickledStorage facts{};
  PickledValue value{};
};

/// The storage that the tuple ("storage", dtype, key, device, elements) names; none where LibTorch refuses
/// it. Throws PickleFault.
std::optional<NamedStorage> storage_of(const std::vector<PickledValue>& values, std::size_t described);

/// The tensor that the arguments of torch._utils._rebuild_tensor_v2, or of _rebuild_qtensor, describe; none
/// where LibTorch refuses it. Throws PickleFault where it reaches beyond its storage.
std::optional<PickledValue> tensor_of(const std::vector<PickledValue>& values, std::size_t described,
                                      bool is_quantized);

/// Bytes of an element.
std::size_t item_size(std::int8_t dtype);

}  // namespace tsq::io
