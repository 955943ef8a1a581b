#include "io/deflated.h"

#include <zlib.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/base64.h"

namespace tsq::io {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

const Bytef* bytes_of(const std::string& text) { return reinterpret_cast<const Bytef*>(text.data()); }
Bytef* bytes_of(std::string& text) { return reinterpret_cast<Bytef*>(text.data()); }

}  // namespace

nlohmann::json deflated(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string packed(size, '\0');
  if (compress2(bytes_of(packed), &size, bytes_of(text), text.size(), Z_BEST_COMPRESSION) != Z_OK)
    throw std::bad_alloc();  // the only way in which it can fail
  packed.resize(size);
  return {{"size", text.size()}, {"deflated", to_base64(packed)}};
}

std::optional<std::string> inflated(const nlohmann::json& json) {
  const bool is_of_form = json.is_object() && json.contains("size") && json["size"].is_number_unsigned() &&
                          json.contains("deflated") && json["deflated"].is_string();
  if (!is_of_form || json["size"].get<std::size_t>() > kMostBytes) return std::nullopt;
  const auto packed = from_base64(json["deflated"].get_ref<const std::string&>());
  if (!packed) return std::nullopt;
  std::string text(json["size"].get<std::size_t>(), '\0');
  uLongf size = text.size();
  const bool is_whole =
      uncompress(bytes_of(text), &size, bytes_of(*packed), packed->size()) == Z_OK && size == text.size();
  return is_whole ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace tsq::io
