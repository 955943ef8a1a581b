#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/error.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/libtorch_error.h"
#include "cli/commands.h"
#include "cli/model_file.h"
#include "cli/peak_memory.h"
#include "cli/progress.h"
#include "cli/text_table.h"

namespace tsq::cli {
namespace {

constexpr const char* kBenchSummary = "Measure latency, size and memory of models side by side";
constexpr const char* kBenchExamples =
    "  tsq bench model.pt model.int8.pt --data test.pt --threads 1\n"
    "  tsq bench a.pt b.pt c.pt --data test.pt --rounds 200 --json\n\n"
    "A float file that comes first is also measured frozen and fused (torch::jit::optimize_for_inference).\n"
    "Models take turns within each round, so that a change of the machine's speed meets all of them. The "
    "ratio is the first\n"
    "model's median over this one's: above 1 is faster. Throughput counts the first axis of the first "
    "argument.";

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::vector<std::string> models{};
  std::string data{};
  std::size_t rounds{50};
  std::size_t warmup{5};
};

struct Measurement {
  std::vector<double> seconds{};
  std::optional<uint64_t> peak_memory{};

  [[nodiscard]] double min() const { return *std::min_element(seconds.begin(), seconds.end()); }
  [[nodiscard]] double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t middle = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }
};

/// How many things a sample is a batch of.
int64_t batch_of(const Sample& sample) {
  const bool counted = sample.front().isTensor() && sample.front().toTensor().dim() > 0;
  return counted ? sample.front().toTensor().size(0) : 1;
}

double time_of(ModelFile& model, const Sample& sample, std::size_t index) {
  const Clock::time_point begin = Clock::now();
  run(model, sample, index);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Loads and runs each model in a child of its own, before this process has threads.
std::vector<Measurement> measure_memory(const BenchOptions& options, const Session& session) {
  std::vector<Measurement> measurements(options.models.size());
  for (std::size_t i = 0; i < options.models.size(); ++i) {
    measurements[i].peak_memory = peak_memory([&] {
      apply_threads(session);
      ModelFile model = load_model(options.models[i]);
      run(model, load_samples(options.data, model.module).front(), 0);
    });
  }
  return measurements;
}

void measure_latency(const BenchOptions& options, std::vector<ModelFile>& models,
                     const std::vector<Sample>& samples, std::vector<Measurement>& measurements,
                     const Progress& progress) {
  const std::size_t rounds = options.warmup + options.rounds;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < models.size(); ++turn) {
      const std::size_t i = (round + turn) % models.size();
      const std::size_t sample = round % samples.size();
      const double seconds = time_of(models[i], samples[sample], sample);
      if (round >= options.warmup) measurements[i].seconds.push_back(seconds);
    }
    progress(round + 1, rounds);
  }
}

/// The float model as fast as LibTorch makes it: frozen, and fused where oneDNN can. None where the file is
/// no float model, or LibTorch cannot freeze it (preserved state, attributes that are written).
std::optional<ModelFile> frozen(const ModelFile& model, const Sample& sample) {
  if (!read_metadata(model.path).is_null()) return std::nullopt;
  try {
    torch::jit::Module copy = model.module.deepcopy();
    copy.eval();
    const at::NoGradGuard no_grad;
    ModelFile fused{.path = model.path + ", frozen",
                    .module = torch::jit::optimize_for_inference(copy),
                    .engine = model.engine};
    run(fused, sample, 0);
    return fused;
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    return std::nullopt;
  }
}

/// Mean number of things that one run handles.
double mean_batch(const BenchOptions& options, const std::vector<Sample>& samples) {
  int64_t things = 0;
  for (std::size_t i = 0; i < options.rounds; ++i)
    things += batch_of(samples[(options.warmup + i) % samples.size()]);
  return static_cast<double>(things) / static_cast<double>(options.rounds);
}

void print_text(const std::vector<ModelFile>& models, const std::vector<Measurement>& measurements,
                double batch) {
  std::vector<std::vector<std::string>> rows{
      {"model", "size", "min ms", "median ms", "ratio", "per second", "peak memory"}};
  for (std::size_t i = 0; i < models.size(); ++i) {
    const Measurement& m = measurements[i];
    rows.push_back({models[i].path, models[i].bytes > 0 ? readable_size(models[i].bytes) : "-",
                    fmt::format("{:.3f}", 1000 * m.min()), fmt::format("{:.3f}", 1000 * m.median()),
                    fmt::format("{:.2f}", measurements[0].median() / m.median()),
                    fmt::format("{:.1f}", batch / m.median()),
                    m.peak_memory ? readable_size(*m.peak_memory) : "-"});
  }
  std::cout << text_table(rows);
}

json to_json(const BenchOptions& options, const std::vector<ModelFile>& models,
             const std::vector<Measurement>& measurements, double batch) {
  json entries = json::array();
  for (std::size_t i = 0; i < models.size(); ++i) {
    const Measurement& m = measurements[i];
    entries.push_back({{"path", models[i].path},
                       {"bytes", models[i].bytes},
                       {"engine", engine_name(models[i].engine)},
                       {"min_seconds", m.min()},
                       {"median_seconds", m.median()},
                       {"ratio", measurements[0].median() / m.median()},
                       {"per_second", batch / m.median()},
                       {"peak_memory_bytes", m.peak_memory ? json(*m.peak_memory) : json(nullptr)}});
  }
  return {{"models", entries},
          {"threads", at::get_num_threads()},
          {"rounds", options.rounds},
          {"warmup", options.warmup},
          {"mean_batch", batch}};
}

void run_bench(const BenchOptions& options, const Session& session) {
  Steps steps(session);
  std::vector<Measurement> measurements =
      steps.run("memory", [&](const Progress&) { return measure_memory(options, session); });
  std::vector<ModelFile> models;
  for (const std::string& path : options.models) {
    models.push_back(load_model(path));
    tell_devices(models.back(), session);
  }
  const std::vector<Sample> samples = load_samples(options.data, models.front().module);
  // Beside the float file the fair float model: what int8 has to beat.
  if (std::optional<ModelFile> fused = frozen(models.front(), samples.front())) {
    models.push_back(std::move(*fused));
    measurements.emplace_back();
  }
  steps.run("bench", [&](const Progress& progress) {
    measure_latency(options, models, samples, measurements, progress);
  });
  const double batch = mean_batch(options, samples);
  if (session.speaks_text()) print_text(models, measurements, batch);
  print_json(session, to_json(options, models, measurements, batch));
}

}  // namespace

void add_bench(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, session, "bench", kBenchSummary, kBenchExamples);
  const auto options = std::make_shared<BenchOptions>();
  command->add_option("MODEL.pt", options->models, "TorchScript files; ratios are to the first")
      ->required()
      ->type_name("");
  command->add_option("--data", options->data, "Samples, as for 'tsq quantize --calib'")
      ->required()
      ->type_name("DATA.pt");
  command->add_option("--rounds", options->rounds, "Timed runs of each model (default: 50)")
      ->check(CLI::Range(1, 1000000).description(""))
      ->type_name("N");
  command->add_option("--warmup", options->warmup, "Runs of each model before (default: 5)")
      ->check(CLI::Range(0, 1000000).description(""))
      ->type_name("N");
  command->callback(
      [options, &session] { session.action = [options, &session] { run_bench(*options, session); }; });
}

}  // namespace tsq::cli
