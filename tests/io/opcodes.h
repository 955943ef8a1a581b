#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// The opcodes of pickles, to make whole and damaged ones of.
namespace tsq::testing::opcodes {

/// A pickle of protocol 2, which ends after `opcodes`.
inline std::string pickle(const std::string& opcodes) { return std::string("\x80\x02") + opcodes + "."; }

inline std::string integer(std::int64_t value) {
  return "\x8a\x08" + std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline std::string text(const std::string& value) {
  const auto length = static_cast<std::uint32_t>(value.size());
  return "X" + std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + value;
}

inline std::string tuple(const std::string& parts) { return "(" + parts + "t"; }
inline std::string sizes(const std::vector<std::int64_t>& numbers) {
  std::string parts;
  for (const std::int64_t number : numbers) parts += integer(number);
  return tuple(parts);
}

/// A storage of floats, under the key "0".
inline std::string storage(std::int64_t elements) {
  return tuple(text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + integer(elements)) +
         "Q";
}

inline std::string tensor_of(const std::string& storage, std::int64_t offset,
                             const std::vector<std::int64_t>& shape,
                             const std::vector<std::int64_t>& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n" +
         tuple(storage + integer(offset) + sizes(shape) + sizes(strides) + "\x89" +
               "ccollections\nOrderedDict\n)R") +
         "R";
}

}  // namespace tsq::testing::opcodes
