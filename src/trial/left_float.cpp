#include <tsq/left_float.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

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

}  // namespace tsq
