#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Bytes as text that JSON takes (RFC 4648).
namespace tsq {

std::string to_base64(std::string_view bytes);

/// None for what is no Base64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace tsq
