#pragma once

#include <fstream>
#include <nlohmann/json.hpp>

namespace tsq {

/// What dump_pytorch_tables.py wrote; {"unavailable": reason} where it could not.
inline nlohmann::json pytorch_tables() {
  std::ifstream file(TSQ_PYTORCH_TABLES);
  if (!file) return {{"unavailable", "no " TSQ_PYTORCH_TABLES "; ctest makes it"}};
  return nlohmann::json::parse(file);
}

}  // namespace tsq
