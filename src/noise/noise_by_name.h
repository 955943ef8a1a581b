#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "ir/model.h"
#include "noise/noise.h"

namespace tsq::noise {

/// The noise of a model's roundings, for its copies: nodes are known by their names.
class NoiseByName {
 public:
  /// `model`: whose nodes the noise model names.
  NoiseByName(const ir::Model& model, const NoiseModel& noise);

  /// What a node of a copy adds to each output, as a share of the output's power; empty where it rounds
  /// nothing. Several nodes may be one observer: each is known by what makes its value, too.
  [[nodiscard]] std::span<const double> of_outputs(const ir::Model& copy, const ir::Node* node) const;
  /// To all outputs together.
  [[nodiscard]] double of_all(const ir::Model& copy, const ir::Node* node) const;
  [[nodiscard]] std::size_t outputs() const noexcept { return outputs_; }

  [[nodiscard]] nlohmann::json to_dict() const;
  /// Throws nlohmann::json::exception for what to_dict has not written.
  static NoiseByName from_dict(const nlohmann::json& json);

 private:
  NoiseByName() = default;

  std::size_t outputs_{0};
  std::map<std::string, std::vector<double>> shares_{};
};

}  // namespace tsq::noise
