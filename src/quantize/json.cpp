// What quantize has found, as JSON.

#include <tsq/quantize_model.h>

#include <nlohmann/json.hpp>

namespace tsq {

nlohmann::json GoalOutcome::to_json() const {
  nlohmann::json json = search.to_json();
  json["measure"] = measure;
  json["at_least"] = at_least;
  if (float_score) json["float_score"] = *float_score;
  return json;
}

nlohmann::json Quantized::to_json() const {
  const auto or_null = [](const auto& value) { return value ? value->to_json() : nlohmann::json(nullptr); };
  const auto sentences = [](const std::vector<Remark>& remarks) {
    nlohmann::json array = nlohmann::json::array();
    for (const Remark& remark : remarks) array.push_back(to_string(remark));
    return array;
  };
  nlohmann::json left = nlohmann::json::array();
  for (const LeftFloat& each : left_float) left.push_back(each.to_json());
  nlohmann::json targets = nlohmann::json::array();
  for (const TargetPrediction& each : elsewhere) {
    targets.push_back({{"backend", each.target.engine},
                       {"target", to_string(each.target.runtime)},
                       {"seconds", each.prediction.seconds},
                       {"noise", each.prediction.noise}});
  }
  return {{"trial", trial.to_json()},
          {"unseen", or_null(unseen)},
          {"latency", or_null(latency)},
          {"optimized_latency", or_null(optimized_latency)},
          {"is_float_model", is_float_model},
          {"left_float", std::move(left)},
          {"samples", samples},
          {"held_back", held_back},
          {"goal", or_null(goal)},
          {"targets", std::move(targets)},
          {"qconfig_mapping", mapping.to_dict()},
          {"warnings", sentences(warnings)},
          {"notes", sentences(notes)}};
}

}  // namespace tsq
