#pragma once

#include <nlohmann/json.hpp>

namespace tsq {

/// Calls `each` with every object of a configuration that defines a module by its file: {"file":
/// "module.pt"}.
template <typename Each>
void for_files_of_modules(nlohmann::json& part, const Each& each) {
  if (!part.is_structured()) return;
  if (part.is_object() && part.contains("file") && part["file"].is_string()) each(part);
  for (nlohmann::json& inner : part) for_files_of_modules(inner, each);
}

}  // namespace tsq
