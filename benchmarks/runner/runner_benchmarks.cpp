// Measures tsq::Runner beside plain forward, in processes that are fresh and in such that have run other
// work, for several batch sizes.
//   tsq_runner_benchmarks
//   tsq_runner_benchmarks model.int8.pt --data test.pt --threads 2
// Each way of calling is measured in a process of its own, for Runner's option of memory concerns the whole
// process; the ways take turns, launch by launch. Times are medians over launches of the median call; the
// ratio is the median over launches of forward's time divided by theirs, with the lowest and the highest.
// Without a model: a small convolutional network in int8, made on the spot.

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <tsq/bench/machine.h>
#include <tsq/bench/statistics.h>
#include <tsq/libtorch_warnings.h>
#include <tsq/runner.h>
#include <tsq/tsq.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "bench/batches.h"
#include "benchmarks/runner/new_process.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq::benchmarks {
namespace {

struct Options {
  std::string model;
  std::string data;
  std::vector<int64_t> batches{1, 16};
  int threads{1};
  int launches{5};
  double seconds{0.5};
};

using Forward = std::function<at::IValue(const Sample&)>;

/// A way to call a file. Made and used in one process.
struct Way {
  const char* name;
  Forward (*load)(const std::string& path, int threads);
};

Forward plain(const std::string& path, int threads) {
  at::set_num_threads(threads);
  return [module = load(path)](const Sample& sample) mutable {
    const at::NoGradGuard no_gradients;
    return module.forward(sample);
  };
}

template <bool keeps_memory, bool channels_last>
Forward runner(const std::string& path, int threads) {
  const RunnerOptions options{
      .threads = threads, .keep_memory = keeps_memory, .channels_last = channels_last};
  return [runner = Runner(path, options)](const Sample& sample) mutable { return runner(sample); };
}

constexpr std::array kWays{
    Way{"forward", plain},
    Way{"Runner", runner<false, false>},
    Way{"keep_memory", runner<true, false>},
    Way{"keep_memory, channels_last", runner<true, true>},
};

/// What a process that has served for a while has done: calls of other sizes, whose memory it has freed.
void use_process(Forward& forward, const std::vector<Sample>& samples) {
  for (const int64_t rows : {1, 32, 3, 24, 8, 32, 2}) (void)forward(bench::batches_of(samples, rows).front());
}

/// Milliseconds of the median call.
double milliseconds(Forward& forward, const Sample& sample, double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr int kWarmup = 5;
  constexpr std::size_t kFewest = 3;
  for (int i = 0; i < kWarmup; ++i) (void)forward(sample);
  std::vector<double> calls;
  const auto begin = Clock::now();
  while (calls.size() < kFewest || Clock::now() - begin < std::chrono::duration<double>(seconds)) {
    const auto start = Clock::now();
    (void)forward(sample);
    calls.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return bench::median(std::move(calls));
}

std::vector<Sample> samples_of(const Options& options) {
  return load_samples(options.data, load(options.model));
}

nlohmann::json measure(const Options& options, const Way& way, int64_t rows, bool is_used) {
  const std::vector<Sample> samples = samples_of(options);
  Forward forward = way.load(options.model, options.threads);
  if (is_used) use_process(forward, samples);
  return milliseconds(forward, bench::batches_of(samples, rows).front(), options.seconds);
}

/// Each way's milliseconds in each launch.
using Times = std::vector<std::vector<double>>;

Times measure_ways(const Options& options, int64_t rows, bool is_used) {
  Times times(kWays.size());
  for (int launch = 0; launch < options.launches; ++launch) {
    for (std::size_t i = 0; i < kWays.size(); ++i) {
      const std::size_t turn = (i + static_cast<std::size_t>(launch)) % kWays.size();
      times[turn].push_back(
          in_new_process([&] { return measure(options, kWays[turn], rows, is_used); }).get<double>());
    }
  }
  return times;
}

std::vector<double> ratios(const std::vector<double>& of_forward, const std::vector<double>& of_way) {
  std::vector<double> found;
  std::ranges::transform(of_forward, of_way, std::back_inserter(found), std::divides());
  return found;
}

void print_rows(const Times& times, int64_t rows, bool is_used) {
  for (std::size_t way = 0; way < kWays.size(); ++way) {
    const std::vector<double> found = ratios(times.front(), times[way]);
    const auto [lowest, highest] = std::ranges::minmax(found);
    fmt::print("{:<8} {:>5}  {:<27} {:>10.3f} {:>7.3f}  {:.3f} to {:.3f}\n", is_used ? "used" : "fresh", rows,
               kWays[way].name, bench::median(times[way]), bench::median(found), lowest, highest);
  }
  std::fflush(stdout);
}

/// Convolutions and a sum, as in image networks: maps large enough that memory counts.
torch::jit::Module small_network() {
  torch::jit::Module module = testing::user_module("SmallNetwork");
  module.register_module("stem", testing::conv2d(3, 32, 3));
  module.register_module("pool", testing::max_pool2d());
  for (const char* name : {"first", "second"}) module.register_module(name, testing::conv2d(32, 32, 3));
  module.register_module("wide", testing::conv2d(32, 64, 1));
  module.register_module("relu", testing::relu());
  module.define(
      "def forward(self, x):\n"
      "  x = self.pool.forward(self.relu.forward(self.stem.forward(x)))\n"
      "  y = self.second.forward(self.relu.forward(self.first.forward(x)))\n"
      "  return self.relu.forward(self.wide.forward(x + y))\n");
  module.eval();
  return module;
}

/// Writes the network in int8 and its data.
void write_small_network(const std::string& model_path, const std::string& data_path) {
  constexpr const char* kBackend = "x86";
  at::manual_seed(0);
  std::vector<Sample> samples;
  c10::impl::GenericList data(c10::TensorType::get());
  for (int i = 0; i < 4; ++i) {
    const at::Tensor image = at::randn({1, 3, 96, 96});
    samples.push_back({image});
    data.push_back(image);
  }
  const BackendConfig backend = backend_config(kBackend);
  Prepared prepared = prepare(small_network(), best_qconfig_mapping(kBackend), backend);
  calibrate(prepared, samples);
  save(convert(prepared, backend), model_path);
  const std::vector<char> bytes = torch::jit::pickle_save(data);
  std::ofstream(data_path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Measures tsq::Runner beside plain forward.");
  auto* model = app.add_option("model", options.model, "an int8 file (default: a small network)")
                    ->check(CLI::ExistingFile);
  auto* data = app.add_option("--data", options.data, "samples of the model")->check(CLI::ExistingFile);
  model->needs(data);
  data->needs(model);
  app.add_option("--batch", options.batches, "rows of a call")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", options.threads, "that a call computes with")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--launches", options.launches, "processes for each way")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "that each process measures")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const testing::TemporaryFolder folder;
  if (options.model.empty()) {
    options.model = folder.file("small.int8.pt");
    options.data = folder.file("data.pt");
    in_new_process([&] {
      write_small_network(options.model, options.data);
      return nlohmann::json();
    });
  }
  fmt::print("{:<8} {:>5}  {:<27} {:>10} {:>7}  {}\n", "process", "batch", "call", "ms", "ratio",
             "lowest to highest");
  for (const int64_t rows : options.batches) {
    for (const bool is_used : {false, true}) print_rows(measure_ways(options, rows, is_used), rows, is_used);
  }
  fmt::print("{} launches, threads of a call: {}; {}\n", options.launches, options.threads,
             bench::text_of(bench::this_machine()));
  return 0;
}

}  // namespace
}  // namespace tsq::benchmarks

int main(int argc, char** argv) try {
  tsq::silence_libtorch();
  return tsq::benchmarks::run(argc, argv);
} catch (const c10::Error& error) {
  std::cerr << "tsq_runner_benchmarks: error: " << error.what_without_backtrace() << '\n';
  return 1;
} catch (const std::exception& error) {
  std::cerr << "tsq_runner_benchmarks: error: " << error.what() << '\n';
  return 1;
}
