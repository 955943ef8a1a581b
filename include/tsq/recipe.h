#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace tsq {

/// What tsq does besides the tables and the mapping: a name, and the switches of passes that FX does not
/// have. The default is the recipe `fx`: exactly what prepare_fx, convert_to_reference_fx and convert_fx do.
struct Recipe {
  std::string name{"fx"};
  /// The migration strength α of SmoothQuant, 0 to 1: how much of the activations' outliers goes
  /// into the weights of linear layers behind a LayerNorm; none: no smoothing. Source: Xiao et al.,
  /// "SmoothQuant" (2023), equation 4.
  std::optional<double> smooth_quant{};

  /// Throws Error(BadConfig) for a key or value that is not allowed.
  static Recipe from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

}  // namespace tsq
