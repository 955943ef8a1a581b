// Which layers cost the model's output most in int8.

#include <tsq/error.h>
#include <tsq/layer_sensitivity.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backends/kernels/engine.h"
#include "base/json_number.h"
#include "pipeline/float_layers.h"
#include "pipeline/predicted_noise.h"
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

/// What a model costs with all layers but one in float, and with these in float.
struct Costs {
  std::function<LayerCost(std::size_t layer)> alone{};
  std::function<LayerCost(std::span<const std::size_t> in_float)> with_float{};
};

/// What int8 costs less where a layer is float.
LayerCost difference(const LayerCost& whole, const LayerCost& without) {
  LayerCost cost{.db = decibels_of(error_share(whole.db) - error_share(without.db))};
  if (whole.agreement && without.agreement)
    cost.agreement = std::min(1.0, 1 - (*without.agreement - *whole.agreement));
  return cost;
}

Sensitivity ranking(const std::vector<QuantizedLayer>& layers, const Costs& costs) {
  std::vector<LayerCost> alone;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) alone.push_back(costs.alone(layer));
  const std::vector<std::size_t> order = ranked(alone);
  Sensitivity result;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const LayerCost& by_itself = alone[order[i]];
    result.layers.push_back({.layer = layers[order[i]],
                             .alone_db = by_itself.db,
                             .cumulative_db = costs.with_float(std::span(order).first(i)).db,
                             .alone_agreement = by_itself.agreement});
  }
  return result;
}

/// Of models that are made and run.
class MeasuredCosts {
 public:
  MeasuredCosts(const detail::Calibrated& model, const BackendConfig& backend,
                const detail::FloatOutputs& wanted, const SensitivityOptions& options)
      : model_(model), backend_(backend), wanted_(wanted), options_(options), whole_(made({})) {
    int8_ = cost_of(whole_);
  }

  [[nodiscard]] const LayerCost& int8() const { return int8_; }

  LayerCost alone(std::size_t layer) {
    const Lowered alone = made(detail::all_but(model_, layer));
    const QuantizedLayer& named = model_.layers[layer];
    if (detail::is_quantized(alone.report(), named) || !detail::is_quantized(whole_.report(), named))
      return cost_of(alone);
    // It is int8 only with layers around it: what the whole has less without it.
    const std::vector<std::size_t> one{layer};
    return difference(int8_, cost_of(made(detail::float_nodes(model_, one))));
  }

  LayerCost with_float(std::span<const std::size_t> in_float) {
    return in_float.empty() ? int8_ : cost_of(made(detail::float_nodes(model_, in_float)));
  }

 private:
  [[nodiscard]] Lowered made(std::map<std::string, std::string> float_nodes) const {
    return lower(detail::with_float_nodes(model_, backend_, std::move(float_nodes)), backend_,
                 options_.lowering);
  }

  LayerCost cost_of(const Lowered& lowered) {
    const auto compared = wanted_.compare(lowered, engine_of(backend_));
    // With no layer in int8, with all, and each layer alone and with those that cost less.
    const std::size_t all = options_.quick ? 2 : 2 * model_.layers.size() + 1;
    ++done_;
    if (options_.progress) options_.progress(done_, std::max(all, done_));
    return {.db = compared.worst_db, .agreement = least_agreement(compared.decisions)};
  }

  const detail::Calibrated& model_;
  const BackendConfig& backend_;
  const detail::FloatOutputs& wanted_;
  const SensitivityOptions& options_;
  Lowered whole_;
  LayerCost int8_{};
  std::size_t done_{0};
};

/// By gradients, which one model that has run corrects.
class PredictedCosts {
 public:
  PredictedCosts(const detail::Calibrated& model, std::span<const Sample> samples, const LayerCost& int8)
      : model_(model), noise_(model.stage, samples), whole_(noise_.plan({})) {
    predicted_ = noise_.share(whole_);
    const double real = error_share(int8.db);
    if (predicted_ <= 0 && real > 0)
      throw Error(ErrorCode::BadModel, "no gradient shows what rounding does to this model",
                  "leave out --quick (SensitivityOptions::quick), which runs the models instead");
    if (real > 0 && std::isfinite(real)) factor_ = real / predicted_;
  }

  /// SQNR with all in int8, before it is corrected.
  [[nodiscard]] double predicted_db() const { return decibels_of(predicted_); }

  [[nodiscard]] LayerCost alone(std::size_t layer) const {
    const Plan alone = noise_.plan(detail::all_but(model_, layer));
    const QuantizedLayer& named = model_.layers[layer];
    if (noise_.is_quantized(alone, named) || !noise_.is_quantized(whole_, named)) return cost_of(alone);
    const std::vector<std::size_t> one{layer};
    return difference(cost_of(whole_), cost_of(noise_.plan(detail::float_nodes(model_, one))));
  }

  [[nodiscard]] LayerCost with_float(std::span<const std::size_t> in_float) const {
    return cost_of(in_float.empty() ? whole_ : noise_.plan(detail::float_nodes(model_, in_float)));
  }

 private:
  [[nodiscard]] LayerCost cost_of(const Plan& plan) const {
    return {.db = decibels_of(factor_ * noise_.share(plan))};
  }

  const detail::Calibrated& model_;
  detail::PredictedNoise noise_;
  Plan whole_;
  double predicted_{0};
  double factor_{1};
};

}  // namespace

Sensitivity sensitivity(const Prepared& prepared, const BackendConfig& backend,
                        std::span<const Sample> samples, const SensitivityOptions& options) {
  // Refuses a backend without kernels before anything runs.
  (void)engine_of(backend, /*must_have_kernels=*/true);
  detail::Calibrated model = detail::calibrated(prepared);
  const torch::jit::Module& float_model = detail::stage_of(prepared).float_model;
  const std::vector<Sample> judged =
      detail::some_for(torchscript::keeps_state(float_model), samples, options.samples);
  const detail::FloatOutputs wanted(float_model, judged, options.decisions);
  constexpr std::size_t kTimedRuns = 3;
  detail::measure_layers(prepared, samples.front(), kTimedRuns, model.layers);
  MeasuredCosts measured(model, backend, wanted, options);
  Sensitivity result;
  if (options.quick) {
    const PredictedCosts predicted(model, judged, measured.int8());
    result =
        ranking(model.layers, {.alone = [&](std::size_t layer) { return predicted.alone(layer); },
                               .with_float = [&](auto in_float) { return predicted.with_float(in_float); }});
    result.predicted_db = predicted.predicted_db();
  } else {
    result =
        ranking(model.layers, {.alone = [&](std::size_t layer) { return measured.alone(layer); },
                               .with_float = [&](auto in_float) { return measured.with_float(in_float); }});
  }
  std::vector<std::size_t> all(model.layers.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  result.is_of_decisions = !wanted.has_floats();
  result.samples = wanted.samples();
  result.int8_db = measured.int8().db;
  if (!all.empty()) result.int8_agreement = measured.int8().agreement;
  result.float_db = measured.with_float(all).db;
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
          {"predicted_int8_sqnr_db", detail::finite_or_null(predicted_db)},
          {"layers", std::move(entries)}};
}

}  // namespace tsq
