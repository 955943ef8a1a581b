#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

/// Long text in a record of a file: LibTorch does not compress the files beside a model.
namespace tsq::io {

/// {"size": bytes of the text, "deflated": Base64}.
nlohmann::json deflated(const std::string& text);

/// The text; none for JSON that is not of this form, is damaged, or holds more than 64 MiB.
std::optional<std::string> inflated(const nlohmann::json& json);

}  // namespace tsq::io
