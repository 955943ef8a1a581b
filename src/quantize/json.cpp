// What quantize has found, as JSON.

#include <tsq/quantize_model.h>

#include <array>
#include <nlohmann/json.hpp>

namespace tsq {

std::string_view to_string(LeftFloatCause cause) {
  constexpr std::array<std::string_view, 4> kNames{"fault", "slower", "larger", "nothing_gained"};
  return kNames.at(static_cast<std::size_t>(cause));
}

nlohmann::json LeftFloat::to_json() const {
  nlohmann::json array = nlohmann::json::array();
  for (const QuantizedLayer& layer : layers) array.push_back(layer.to_json());
  return {{"cause", to_string(cause)}, {"layers", std::move(array)}, {"text", text}};
}

nlohmann::json GoalOutcome::to_json() const {
  nlohmann::json json = search.to_json();
  json["measure"] = measure;
  json["at_least"] = at_least;
  if (float_score) json["float_score"] = *float_score;
  return json;
}

}  // namespace tsq
