// Which layers cost the model's output most in int8.

#include <tsq/sensitivity.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backends/kernels/engine.h"
#include "base/json_number.h"
#include "pipeline/float_layers.h"

namespace tsq {
namespace {

/// What a model with some layers in int8 does.
struct LayerCost {
  double db{0};
  std::optional<double> agreement{};
};

/// The most costly layers first. Equal ones stay in graph order.
std::vector<std::size_t> ranked(const std::vector<LayerCost>& alone) {
  std::vector<std::size_t> order(alone.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t layer) { return alone[layer].db; });
  return order;
}

std::optional<double> least_agreement(std::span<const JudgedDecisions> outputs) {
  std::optional<double> least;
  for (const JudgedDecisions& output : outputs) {
    if (output.is_judged()) least = std::min(least.value_or(1), output.all.share());
  }
  return least;
}

}  // namespace

Sensitivity sensitivity(const Prepared& prepared, const BackendConfig& backend,
                        std::span<const Sample> samples, const SensitivityOptions& options) {
  // Refuses a backend without kernels before anything runs.
  (void)engine_of(backend, /*must_have_kernels=*/true);
  detail::Calibrated model = detail::calibrated(prepared);
  const detail::FloatOutputs wanted(detail::stage_of(prepared).float_model,
                                    detail::spread(samples, options.samples), options.decisions);
  constexpr std::size_t kTimedRuns = 3;
  detail::measure_layers(prepared, samples.front(), kTimedRuns, model.layers);
  std::size_t done = 0;
  const auto cost_with = [&](std::map<std::string, std::string> float_nodes) {
    const Reference reference = detail::with_float_nodes(model, backend, std::move(float_nodes));
    const auto compared = wanted.compare(lower(reference, backend, options.lowering), engine_of(backend));
    if (options.progress) options.progress(++done, 2 * model.layers.size() + 1);
    return LayerCost{.db = compared.worst_db, .agreement = least_agreement(compared.decisions)};
  };
  std::vector<LayerCost> alone;
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer)
    alone.push_back(cost_with(detail::all_but(model, layer)));
  const std::vector<std::size_t> order = ranked(alone);
  const auto with_float = [&](std::size_t most_costly) {
    return cost_with(detail::float_nodes(model, std::span(order).first(most_costly)));
  };

  Sensitivity result{.samples = wanted.samples()};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const LayerCost& by_itself = alone[order[i]];
    const LayerCost cumulative = with_float(i);
    if (i == 0) result.int8_agreement = cumulative.agreement;
    result.layers.push_back({.layer = model.layers[order[i]],
                             .alone_db = by_itself.db,
                             .cumulative_db = cumulative.db,
                             .alone_agreement = by_itself.agreement});
  }
  result.float_db = with_float(order.size()).db;
  result.int8_db = result.layers.empty() ? result.float_db : result.layers.front().cumulative_db;
  return result;
}

std::optional<std::size_t> Sensitivity::float_layers_for(double db) const {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].cumulative_db >= db) return i;
  }
  return float_db >= db ? std::optional(layers.size()) : std::nullopt;
}

nlohmann::json QuantizedLayer::to_json() const {
  nlohmann::json calls = nlohmann::json::array();
  for (const OperatorUse& use : uses)
    calls.push_back(nlohmann::json::array({use.module_name, use.type.name, use.index}));
  nlohmann::json json = {{"layer", name},
                         {"op", op},
                         {"nodes", nodes},
                         {"module_names", module_names},
                         {"module_name_object_type_order", std::move(calls)}};
  if (macs) json["macs"] = *macs;
  if (seconds) json["float_seconds"] = *seconds;
  return json;
}

nlohmann::json Sensitivity::to_json() const {
  nlohmann::json entries = nlohmann::json::array();
  for (const LayerSensitivity& each : layers) {
    nlohmann::json entry = each.layer.to_json();
    entry["alone_sqnr_db"] = detail::finite_or_null(each.alone_db);
    entry["cumulative_sqnr_db"] = detail::finite_or_null(each.cumulative_db);
    entry["alone_agreement"] = detail::finite_or_null(each.alone_agreement);
    entries.push_back(std::move(entry));
  }
  return {{"samples", samples},
          {"int8_sqnr_db", detail::finite_or_null(int8_db)},
          {"int8_agreement", detail::finite_or_null(int8_agreement)},
          {"float_sqnr_db", detail::finite_or_null(float_db)},
          {"layers", std::move(entries)}};
}

}  // namespace tsq
