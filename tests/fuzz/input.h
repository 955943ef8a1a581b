#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// What a fuzz target makes of the bytes that it is given.
namespace tsq::fuzz {

/// Takes numbers from the front. Beyond the end all are 0.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(reinterpret_cast<const char*>(data), size) {}

  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const auto first = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    return first;
  }
  /// From `low` to `high`, which are at most 255 apart.
  std::int64_t integer(std::int64_t low, std::int64_t high) { return low + byte() % (high - low + 1); }
  bool coin() { return (byte() & 1U) != 0; }
  /// True once in so many times.
  bool one_in(std::int64_t many) { return integer(1, many) == many; }
  double real(double low, double high) { return low + (high - low) * byte() / 255.0; }

  [[nodiscard]] bool is_empty() const { return left_.empty(); }
  [[nodiscard]] std::string_view rest() const { return left_; }

 private:
  std::string_view left_;
};

/// A file in memory with these bytes, for functions that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace tsq::fuzz
