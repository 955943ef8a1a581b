#pragma once

#include <c10/core/QEngine.h>
#include <tsq/decision.h>
#include <tsq/decisions.h>
#include <tsq/detectors.h>
#include <tsq/progress.h>
#include <tsq/sample.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// A model of a report, as it was loaded.
struct ReportedModel {
  std::string name{};                                  ///< "model.int8.pt"
  std::shared_ptr<const torch::jit::Module> module{};  ///< never null
  at::QEngine engine{};
  uint64_t bytes{0};                  ///< of its file
  std::string sha1{};                 ///< of its file
  std::string recipe{};               ///< "best"; empty where tsq did not make it
  std::string mode{};                 ///< "static"
  std::string target{};               ///< "fused"
  std::vector<Decision> decisions{};  ///< of the operators of the float model; empty: unknown
};

struct ReportOptions {
  std::size_t rounds{20};                         ///< of profiling; their median counts
  bool times{true};                               ///< whether latencies are compared, too
  std::vector<NamedDecisions> named_decisions{};  ///< outputs that are scores, whatever the graph tells
  std::vector<Finding> findings{};
  Progress progress{};  ///< told after each model
};

/// Everything that a report shows of a float model and int8 models of it: latency, accuracy, the operators of
/// a run with their times, layers as compare_layers has them with histograms, decisions and findings. Latency
/// and profiles are of the first sample. The models run with their engines, held for each call alone. Throws
/// Error(BadData) where a model cannot run on a sample, and Error(BadModel) where models have no layer in
/// common.
nlohmann::json report_data(const ReportedModel& exact, std::span<const ReportedModel> others,
                           std::span<const Sample> samples, const ReportOptions& options = {});

/// One HTML page that shows such data, with everything that it needs in it: it asks no network for anything.
std::string report_page(const nlohmann::json& data);

}  // namespace tsq
