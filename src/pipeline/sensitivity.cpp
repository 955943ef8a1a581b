// Which layers cost the model's output most in int8.

#include <tsq/layer_sensitivity.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backends/kernels/engine.h"
#include "base/json_number.h"
#include "pipeline/float_layers.h"
#include "torchscript/kept_state.h"

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

/// Power of the error over power of the output, and back; no error is infinite, and so is one that is less
/// than nothing.
double error_share(double db) { return std::pow(10, -db / 10); }
double decibels_of(double error_share) {
  return error_share > 0 ? -10 * std::log10(error_share) : std::numeric_limits<double>::infinity();
}

}  // namespace

Sensitivity sensitivity(const Prepared& prepared, const BackendConfig& backend,
                        std::span<const Sample> samples, const SensitivityOptions& options) {
  // Refuses a backend without kernels before anything runs.
  (void)engine_of(backend, /*must_have_kernels=*/true);
  detail::Calibrated model = detail::calibrated(prepared);
  const torch::jit::Module& float_model = detail::stage_of(prepared).float_model;
  const detail::FloatOutputs wanted(
      float_model, detail::some_for(torchscript::keeps_state(float_model), samples, options.samples),
      options.decisions);
  constexpr std::size_t kTimedRuns = 3;
  detail::measure_layers(prepared, samples.front(), kTimedRuns, model.layers);
  std::size_t done = 0;
  const auto made = [&](std::map<std::string, std::string> float_nodes) {
    return lower(detail::with_float_nodes(model, backend, std::move(float_nodes)), backend, options.lowering);
  };
  const auto cost_of = [&](const Lowered& lowered) {
    const auto compared = wanted.compare(lowered, engine_of(backend));
    if (options.progress) options.progress(++done, 2 * model.layers.size() + 1);
    return LayerCost{.db = compared.worst_db, .agreement = least_agreement(compared.decisions)};
  };
  const Lowered whole = made({});
  const LayerCost int8 = cost_of(whole);
  const auto alone_cost_of = [&](std::size_t layer) {
    const Lowered alone = made(detail::all_but(model, layer));
    const QuantizedLayer& named = model.layers[layer];
    if (detail::is_quantized(alone.report(), named) || !detail::is_quantized(whole.report(), named))
      return cost_of(alone);
    // It is int8 only with layers around it: what the whole has less without it.
    const std::vector<std::size_t> one{layer};
    LayerCost without = cost_of(made(detail::float_nodes(model, one)));
    without.db = decibels_of(error_share(int8.db) - error_share(without.db));
    if (int8.agreement && without.agreement)
      without.agreement = std::min(1.0, 1 - (*without.agreement - *int8.agreement));
    return without;
  };
  std::vector<LayerCost> alone;
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) alone.push_back(alone_cost_of(layer));
  const std::vector<std::size_t> order = ranked(alone);
  const auto with_float = [&](std::size_t most_costly) {
    return most_costly == 0 ? int8
                            : cost_of(made(detail::float_nodes(model, std::span(order).first(most_costly))));
  };

  Sensitivity result{.is_of_decisions = !wanted.has_floats(), .samples = wanted.samples()};
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
  result.int8_db = int8.db;
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
          {"is_of_decisions", is_of_decisions},
          {"int8_sqnr_db", detail::finite_or_null(int8_db)},
          {"int8_agreement", detail::finite_or_null(int8_agreement)},
          {"float_sqnr_db", detail::finite_or_null(float_db)},
          {"layers", std::move(entries)}};
}

}  // namespace tsq
