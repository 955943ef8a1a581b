#include "base/base64.h"

#include <cstddef>
#include <cstdint>

namespace tsq {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr int kBitsOfDigit = 6;
constexpr int kBitsOfByte = 8;
constexpr std::size_t kGroup = 4;  ///< digits, of three bytes

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char byte : bytes) {
    bits = (bits << kBitsOfByte) | static_cast<unsigned char>(byte);
    for (held += kBitsOfByte; held >= kBitsOfDigit; held -= kBitsOfDigit)
      text += kDigits[(bits >> (held - kBitsOfDigit)) & 63U];
  }
  if (held > 0) text += kDigits[(bits << (kBitsOfDigit - held)) & 63U];
  while (text.size() % kGroup != 0) text += '=';
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % kGroup != 0) return std::nullopt;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char digit : text) {
    const std::size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << kBitsOfDigit) | static_cast<std::uint32_t>(value);
    held += kBitsOfDigit;
    if (held < kBitsOfByte) continue;
    held -= kBitsOfByte;
    bytes += static_cast<char>((bits >> held) & 255U);
  }
  return bytes;
}

}  // namespace tsq
