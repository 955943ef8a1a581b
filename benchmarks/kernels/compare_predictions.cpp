// Compares times that a profile predicts with measured ones: of random calls of kernels, and of whole
// networks.
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <tsq/bench/statistics.h>
#include <tsq/data.h>
#include <tsq/error.h>
#include <tsq/files.h>
#include <tsq/runtime_library.h>
#include <tsq/tune.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "backends/kernels/engine_packing.h"
#include "backends/kernels/machine_profile.h"
#include "backends/kernels/thread_count.h"
#include "tuning/fitted_profile.h"
#include "tuning/measured_calls.h"
#include "tuning/network_calls.h"

namespace {

constexpr double kMillisecond = 1e6;
constexpr double kPercent = 100;

struct Options {
  std::string profile{"avx512-vnni"};
  std::string engine{"x86"};
  std::vector<std::string> engines{"x86"};
  std::vector<int> threads{1};
  std::uint64_t seed{1000};
  double effort{0.5};
  int passes{3};
  int rounds{5};
  double seconds{2};
  std::vector<std::string> networks{};
  bool shows_parts{false};
  std::string calls_output{};
};

std::shared_ptr<const tsq::MachineProfile> profile_of(const std::string& name) {
  return std::filesystem::exists(name) ? tsq::load_machine_profile(name) : tsq::machine_profile(name);
}

void print(const tsq::tuning::PredictionErrors& errors) {
  fmt::print("{:60} {:6} {:7.1f} {:7.1f}\n", errors.kind, errors.calls, errors.median * kPercent,
             errors.most * kPercent);
}

/// One JSON object a line.
void write_calls(const tsq::MachineProfile& profile, const std::vector<tsq::tuning::MeasuredCall>& calls,
                 const std::string& path) {
  std::ofstream file(path);
  for (const tsq::tuning::MeasuredCall& call : calls) {
    const tsq::kernels::Kernel kernel{.name = call.name, .engine = call.engine, .threads = call.threads};
    const auto predicted = tsq::kernels::nanoseconds(profile, kernel, call.work);
    nlohmann::json line{{"kernel", tsq::kernels::name_of(kernel)},
                        {"threads", call.threads},
                        {"work", tsq::kernels::sizes_of(call.work)},
                        {"nanoseconds", call.nanoseconds}};
    if (predicted) line["predicted"] = *predicted;
    file << line << '\n';
  }
  if (!file) throw std::runtime_error("cannot write " + path);
}

void compare_kernels(const tsq::MachineProfile& profile, const Options& options) {
  fmt::print("{:60} {:>6} {:>7} {:>7}\n", "kind of kernel", "calls", "median%", "9/10%");
  const auto calls = tsq::tuning::measured_calls({.threads = options.threads,
                                                  .engines = options.engines,
                                                  .seed = options.seed,
                                                  .effort = options.effort,
                                                  .passes = options.passes,
                                                  .rounds = options.rounds});
  if (!options.calls_output.empty()) write_calls(profile, calls, options.calls_output);
  const auto errors = tsq::tuning::errors_of(profile, calls);
  for (const auto& each : errors.kinds) print(each);
  print(errors.all);
}

/// "MODEL.pt=DATA.pt".
std::pair<std::string, std::string> files_of(const std::string& network) {
  const std::size_t sign = network.find('=');
  if (sign == std::string::npos) throw std::invalid_argument("give a network as MODEL.pt=DATA.pt");
  return {network.substr(0, sign), network.substr(sign + 1)};
}

void print_parts(const tsq::MachineProfile& profile, const tsq::tuning::NetworkCalls& calls, int threads) {
  for (const tsq::tuning::PredictedKind& kind : tsq::tuning::predicted_kinds(profile, calls, threads))
    fmt::print("    {:58} {:4} {:9.1f} us\n", kind.kind, kind.calls, kind.nanoseconds / 1e3);
}

/// Its relative error.
double compare_network(const tsq::MachineProfile& profile, const std::string& network, int threads,
                       const Options& options) {
  const auto [file, data] = files_of(network);
  (void)tsq::load_runtime_library();
  const tsq::kernels::ThreadCount count(threads);
  const tsq::kernels::EnginePacking hold(tsq::engine_from_name(options.engine));
  torch::jit::Module module = torch::jit::load(file);
  module.eval();
  const tsq::Sample sample = tsq::load_samples(data, module).front();
  const auto calls = tsq::tuning::calls_of_network(module, options.engine, sample);
  const auto predicted = tsq::tuning::predicted(profile, calls, threads);
  const double measured = tsq::tuning::measured(module, options.engine, sample, options.seconds);
  const double error = predicted.nanoseconds / measured - 1;
  fmt::print("{:60} {:7.3f} ms predicted, {:7.3f} ms measured: {:+.1f} %\n", file,
             predicted.nanoseconds / kMillisecond, measured / kMillisecond, error * kPercent);
  for (const std::string& unknown : predicted.unknown) fmt::print("    no time for {}\n", unknown);
  if (options.shows_parts) print_parts(profile, calls, threads);
  return std::abs(error);
}

void compare_networks(const tsq::MachineProfile& profile, const Options& options) {
  tsq::tuning::keep_memory();
  for (const int threads : options.threads) {
    std::vector<double> errors;
    for (const std::string& network : options.networks)
      errors.push_back(compare_network(profile, network, threads, options));
    fmt::print("{} networks, {} threads: median error {:.1f} %\n", errors.size(), threads,
               tsq::bench::median(errors) * kPercent);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Compares times that a profile predicts with measured ones");
  app.add_option("--profile", options.profile, "A profile's name, or a file that 'tsq tune' wrote");
  app.add_option("--engine", options.engine, "That networks run with");
  app.add_option("--engines", options.engines, "Whose kernels are compared")->delimiter(',');
  app.add_option("--threads", options.threads, "Numbers of threads")->delimiter(',');
  app.add_option("--seed", options.seed, "Of the sizes that are drawn");
  app.add_option("--effort", options.effort, "How many sizes are drawn, in parts of what a fit takes");
  app.add_option("--passes", options.passes, "Over all kernels");
  app.add_option("--rounds", options.rounds, "In which a call is measured, in each pass");
  app.add_option("--calls-output", options.calls_output,
                 "Each measured call of a kernel, a line of JSON each");
  app.add_option("--seconds", options.seconds, "For which a network is called");
  app.add_option("--network", options.networks, "MODEL.pt=DATA.pt, in place of kernels")
      ->allow_extra_args(false);
  app.add_flag("--parts", options.shows_parts, "What a network's kernels take, by kind");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto profile = profile_of(options.profile);
    if (options.networks.empty()) {
      compare_kernels(*profile, options);
    } else {
      compare_networks(*profile, options);
    }
  } catch (const std::exception& error) {
    std::cerr << "compare_predictions: error: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
