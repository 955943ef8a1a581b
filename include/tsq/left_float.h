#pragma once

#include <tsq/quantized_layer.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tsq {

/// Why layers were left float after the finished model had been tried.
enum class LeftFloatCause { Fault, Slower, Larger, NothingGained };
/// "fault", "slower", "larger", "nothing_gained".
std::string_view to_string(LeftFloatCause cause);

/// Layers that were left float for one cause.
struct LeftFloat {
  LeftFloatCause cause{LeftFloatCause::Fault};
  std::vector<QuantizedLayer> layers{};
  std::string text{};  ///< of a fault: what went wrong with the layers in int8

  /// {"cause", "layers", "text"}.
  [[nodiscard]] nlohmann::json to_json() const;
};

}  // namespace tsq
