#pragma once

#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/decisions.h>
#include <tsq/lowering_options.h>
#include <tsq/plan.h>
#include <tsq/progress.h>
#include <tsq/quantize.h>
#include <tsq/sample.h>
#include <tsq/trial.h>

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tsq {

/// A model between the fastest one and the one with the least noise.
struct FrontierPoint {
  Plan plan{};                                 ///< for ConvertOptions::plan; it has a prediction
  Trial trial{};                               ///< beside the float model
  std::optional<LatencyComparison> latency{};  ///< none: it was not measured
  double int8_macs_share{0};                   ///< of the multiply-accumulates, where a sample was counted

  /// Measured where it was, else predicted, for one thread.
  [[nodiscard]] double seconds() const;
  [[nodiscard]] nlohmann::json to_json() const;
};

struct FrontierOptions {
  std::size_t points{8};  ///< at most
  bool times{true};       ///< whether latency is measured
  std::vector<NamedDecisions> decisions{};
  ConvertCustomConfig custom{};
  LoweringOptions lowering{};
  Progress progress{};  ///< told after each model
};

/// Some models of a calibrated one, from the fastest to the one with the least noise: plans by rising prices
/// of noise, evenly spread over decibels. Each is made, tried on the samples and timed on the first; what
/// another one beats in both time and SQNR is left out, so that SQNR rises with time. Throws
/// Error(BadConfig) where plans are not chosen by prices: recipe fx, and models whose noise nobody knows.
std::vector<FrontierPoint> frontier(const Prepared& calibrated, const BackendConfig& backend,
                                    std::span<const Sample> samples, const FrontierOptions& options = {});

/// {"points": [FrontierPoint::to_json], "title"}: what report_page shows of it.
nlohmann::json frontier_json(std::span<const FrontierPoint> points, const std::string& title);

}  // namespace tsq
