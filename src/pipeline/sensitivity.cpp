// Which layers cost the model's output most in int8.

#include <tsq/sensitivity.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backends/kernels/engine.h"
#include "base/json_number.h"
#include "pipeline/ranking.h"

namespace tsq {
namespace detail {

double sqnr_with_float_nodes(const Calibrated& model, const BackendConfig& backend,
                             const FloatOutputs& wanted, const LoweringOptions& lowering,
                             std::map<std::string, std::string> nodes) {
  const Reference reference = with_float_nodes(model, backend, std::move(nodes));
  return sqnr_of(wanted.compare(lower(reference, backend, lowering), engine_of(backend)).whole);
}

Ranking rank_layers(const Calibrated& model, const BackendConfig& backend, const FloatOutputs& wanted,
                    const LoweringOptions& lowering, const std::function<void()>& done) {
  Ranking ranking{.order = std::vector<std::size_t>(model.layers.size())};
  std::iota(ranking.order.begin(), ranking.order.end(), std::size_t{0});
  for (const std::size_t layer : ranking.order) {
    ranking.alone_db.push_back(
        sqnr_with_float_nodes(model, backend, wanted, lowering, all_but(model, layer)));
    done();
  }
  std::ranges::stable_sort(
      ranking.order, [&](std::size_t a, std::size_t b) { return ranking.alone_db[a] < ranking.alone_db[b]; });
  return ranking;
}

}  // namespace detail

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
  const auto advance = [&] {
    if (options.progress) options.progress(++done, 2 * model.layers.size() + 1);
  };
  const detail::Ranking ranking = detail::rank_layers(model, backend, wanted, options.lowering, advance);
  const auto with_float = [&](std::size_t most_costly) {
    auto nodes = detail::float_nodes(model, std::span(ranking.order).first(most_costly));
    const double db =
        detail::sqnr_with_float_nodes(model, backend, wanted, options.lowering, std::move(nodes));
    advance();
    return db;
  };

  Sensitivity result{.samples = wanted.samples()};
  for (std::size_t i = 0; i < ranking.order.size(); ++i) {
    const std::size_t layer = ranking.order[i];
    result.layers.push_back(
        {.layer = model.layers[layer], .alone_db = ranking.alone_db[layer], .cumulative_db = with_float(i)});
  }
  result.float_db = with_float(ranking.order.size());
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
