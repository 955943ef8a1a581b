#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "io/pickle_walk.h"

namespace tsq::io {

enum class PickledKind : std::uint8_t {
  None,
  Bool,
  Integer,
  Text,
  Tuple,
  List,
  Dict,    ///< its parts are keys and values in turn
  Object,  ///< of a class of the file's code: its part is its state
  Tensor,  ///< a storage is a tensor of all that it holds, as in LibTorch
  Other,
};

/// A value of a pickle. Values stand in one list, and name each other by their places in it.
struct PickledValue {
  PickledKind kind{PickledKind::None};
  std::int8_t dtype{-1};     ///< of tensors, by LibTorch's numbers
  std::int64_t number{0};    ///< of whole numbers and bools; of tensors the bytes of their storage
  std::int64_t elements{0};  ///< of tensors
  std::string_view text{};   ///< in the pickle's own bytes
  std::vector<std::size_t> parts{};
};

/// As how many values one counts.
inline std::int64_t weight_of(PickledKind kind) {
  const bool is_container = kind == PickledKind::Tuple || kind == PickledKind::List ||
                            kind == PickledKind::Dict || kind == PickledKind::Object;
  return is_container ? kPickledContainer : 1;
}

struct PickledValues {
  std::vector<PickledValue> values{};
  std::optional<std::size_t> root{};  ///< what the whole pickle is, where the walk has come to its end
  PickleFacts facts{};
};

/// Walks as walk_pickle, and keeps the values, whose texts lie in `bytes`. Throws PickleFault.
PickledValues read_pickle_values(std::string_view bytes);

/// Throws PickleFault where values hold themselves, nest too deeply or would be visited too often.
void check_nesting(const std::vector<PickledValue>& values);

}  // namespace tsq::io
