#include "io/python_file.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace tsq::io {

std::optional<std::string> read_python_file(const std::string& path) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{4} << 20;
  std::error_code error;
  if (!path.ends_with(".py") || !std::filesystem::is_regular_file(path, error)) return std::nullopt;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes > kMostBytes) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tsq::io
