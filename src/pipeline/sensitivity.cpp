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

/// The most costly layers first. Equal ones stay in graph order.
std::vector<std::size_t> ranked(const std::vector<double>& alone_db) {
  std::vector<std::size_t> order(alone_db.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t layer) { return alone_db[layer]; });
  return order;
}

}  // namespace

Sensitivity sensitivity(const Prepared& prepared, const BackendConfig& backend,
                        std::span<const Sample> samples, const SensitivityOptions& options) {
  // Refuses a backend without kernels before anything runs.
  (void)engine_of(backend, /*must_have_kernels=*/true);
  detail::Calibrated model = detail::calibrated(prepared);
  const detail::FloatOutputs wanted(detail::stage_of(prepared).float_model,
                                    detail::spread(samples, options.samples));
  constexpr std::size_t kTimedRuns = 3;
  detail::measure_layers(prepared, samples.front(), kTimedRuns, model.layers);
  std::size_t done = 0;
  const auto db_with = [&](std::map<std::string, std::string> float_nodes) {
    const Reference reference = detail::with_float_nodes(model, backend, std::move(float_nodes));
    const double db =
        wanted.compare(lower(reference, backend, options.lowering), engine_of(backend)).worst_db;
    if (options.progress) options.progress(++done, 2 * model.layers.size() + 1);
    return db;
  };
  std::vector<double> alone_db;
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer)
    alone_db.push_back(db_with(detail::all_but(model, layer)));
  const std::vector<std::size_t> order = ranked(alone_db);
  const auto db_with_float = [&](std::size_t most_costly) {
    return db_with(detail::float_nodes(model, std::span(order).first(most_costly)));
  };

  Sensitivity result{.samples = wanted.samples()};
  for (std::size_t i = 0; i < order.size(); ++i) {
    result.layers.push_back(
        {.layer = model.layers[order[i]], .alone_db = alone_db[order[i]], .cumulative_db = db_with_float(i)});
  }
  result.float_db = db_with_float(order.size());
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
    entries.push_back(std::move(entry));
  }
  return {{"samples", samples},
          {"int8_sqnr_db", detail::finite_or_null(int8_db)},
          {"float_sqnr_db", detail::finite_or_null(float_db)},
          {"layers", std::move(entries)}};
}

}  // namespace tsq
