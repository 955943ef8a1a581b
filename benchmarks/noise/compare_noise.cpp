// Compares what the noise model predicts of each rounding of a network with what running the network with
// that rounding alone shows, on the same samples and on others.
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <tsq/data.h>
#include <tsq/error.h>
#include <tsq/quantize.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <iostream>

#include "ir/analysis.h"
#include "noise/noise.h"
#include "pipeline/run.h"
#include "support/rank_correlation.h"

namespace {

using Clock = std::chrono::steady_clock;
using Nodes = std::unordered_set<const tsq::ir::Node*>;

struct Options {
  std::vector<std::string> networks{};
  std::size_t samples{16};
  std::size_t projections{1};
  std::uint64_t seed{1};
  bool shows_each{false};
};

double decibels(double share) { return -10 * std::log10(share); }
double worst(const std::vector<double>& shares) { return *std::ranges::max_element(shares); }
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A calibrated model as the plan finds it.
tsq::ir::Model settled(const torch::jit::Module& module, const std::vector<tsq::Sample>& samples) {
  tsq::Prepared prepared = tsq::prepare(module, tsq::best_qconfig_mapping("x86"), tsq::backend_config("x86"));
  tsq::calibrate(prepared, samples);
  const tsq::detail::Stage& stage = tsq::detail::stage_of(prepared);
  tsq::ir::Model model = tsq::detail::with_own_observers(stage.model);
  tsq::detail::run(tsq::passes::Step::Settle, model, tsq::detail::context_of(stage));
  return model;
}

std::string name_of(const tsq::ir::Model& model, const tsq::ir::Node* node) {
  return tsq::ir::is_observer(node) ? fmt::format("value {}", node->input(0)->debugName())
                                    : fmt::format("weight {}", tsq::ir::call_of(model, node).path);
}

struct Comparison {
  std::vector<double> predicted{};
  std::vector<double> measured{};
  std::vector<double> errors{};  ///< dB, in ascending order
  std::size_t without_gradient{0};

  [[nodiscard]] double error_of(double share) const {
    if (errors.empty()) return 0;
    return errors[static_cast<std::size_t>(share * static_cast<double>(errors.size() - 1))];
  }
};

Comparison compare_each(const tsq::ir::Model& model, const tsq::noise::NoiseModel& noise, bool shows_each) {
  Comparison result;
  for (const tsq::ir::Node* node : noise.roundings()) {
    const tsq::noise::Shares& shares = *noise.of(node);
    result.without_gradient += shares.is_measured ? 1 : 0;
    const double told = worst(shares.of_outputs);
    const double found = worst(noise.measured({node}));
    if (shows_each)
      fmt::print("  {:60} predicted {:7.2f} measured {:7.2f} dB\n", name_of(model, node), decibels(told),
                 decibels(found));
    if (found <= 0 || told <= 0) continue;
    result.predicted.push_back(told);
    result.measured.push_back(found);
    result.errors.push_back(std::abs(decibels(told) - decibels(found)));
  }
  std::ranges::sort(result.errors);
  return result;
}

void compare(const std::string& network, const Options& options) {
  const std::size_t end = network.find('=');
  const std::string file = network.substr(0, end);
  const torch::jit::Module module = torch::jit::load(file);
  const std::vector<tsq::Sample> samples = tsq::load_samples(network.substr(end + 1), module);
  const tsq::ir::Model model = settled(module, samples);
  auto begin = Clock::now();
  const tsq::noise::NoiseModel noise(
      model, samples, {.samples = options.samples, .projections = options.projections, .seed = options.seed});
  const double predicting = seconds_since(begin);
  if (noise.outputs().empty()) throw std::runtime_error(file + " returns no floating-point numbers");
  begin = Clock::now();
  const Comparison each = compare_each(model, noise, options.shows_each);
  const double measuring = seconds_since(begin);
  const Nodes all(noise.roundings().begin(), noise.roundings().end());
  constexpr std::size_t kWidth = 40;
  fmt::print("{:40} {:5} {:4} {:6.3f} {:6.2f} {:6.2f} {:8.2f} {:8.2f} {:8.2f} {:8.2f}\n",
             file.size() > kWidth ? file.substr(file.size() - kWidth) : file, noise.roundings().size(),
             each.without_gradient, tsq::testing::rank_correlation(each.predicted, each.measured),
             each.error_of(0.5), each.error_of(0.9), decibels(worst(noise.predicted(all))),
             decibels(worst(noise.measured(all))), predicting, measuring);
}

void run(const Options& options) {
  fmt::print("{:40} {:>5} {:>4} {:>6} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8}\n", "network", "of", "none", "rank",
             "dB", "9/10", "all", "really", "s", "s to run");
  for (const std::string& network : options.networks) compare(network, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Compares predicted with measured noise of each rounding");
  app.add_option("--network", options.networks, "MODEL.pt=DATA.pt")->required();
  app.add_option("--samples", options.samples, "Of the data");
  app.add_option("--projections", options.projections, "Of each sample and output");
  app.add_option("--seed", options.seed, "Of the projections");
  app.add_flag("--each", options.shows_each, "Shows each rounding");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
