#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/bench/measure.h>
#include <tsq/data.h>
#include <tsq/error.h>
#include <tsq/files.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>

#include "base/text_table.h"
#include "cli/commands/commands.h"
#include "cli/printing/profile_tables.h"
#include "cli/printing/progress.h"
#include "cli/printing/texts.h"
#include "cli/process/bench_process.h"
#include "cli/process/failure.h"
#include "cli/process/json_file.h"
#include "cli/process/model_file.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kBenchHelp{
    .name = "bench",
    .summary = "Measure latency, throughput, memory and size of models side by side",
    .examples =
        "  tsq bench model.pt model.int8.pt --data test.pt --threads 1\n"
        "  tsq bench model.pt model.int8.pt@onednn,threads=2 --data test.pt --batch 1,16 --output "
        "today.json\n"
        "  tsq bench model.pt model.int8.pt --data test.pt --compare yesterday.json\n"
        "  tsq bench model.pt model.int8.pt --data test.pt --profile --trace trace.json\n"
        "  tsq bench model.int8.pt --data test.pt --concurrency 1,4 --threads 1\n\n"
        "Settings of a model stand after an @: an engine (x86, fbgemm, qnnpack, onednn); its form (as_saved, "
        "frozen,\n"
        "optimized, by torch::jit::optimize_for_inference); threads=N; batch=N; memory=kept (freed memory "
        "stays in\n"
        "the process, as 'tsq run' has it) or memory=system; channels_last. A float file without a form is "
        "measured\n"
        "optimized, which is what int8 has to beat, and as it was saved.\n"
        "Models take turns, so that a change of the machine's speed meets all of them. The ratio says how "
        "many times as\n"
        "fast a model is as the first of its batch size, with its 95 % interval."};

using nlohmann::json;

constexpr double kTolerance = 0.02;

struct BenchOptions {
  std::vector<std::string> models{};
  std::string data{};
  std::vector<int64_t> batches{};
  std::vector<int> concurrency{1};
  std::size_t rounds{0};
  std::optional<std::size_t> warmup{};
  double seconds{bench::Plan().seconds};
  std::size_t launches{bench::Plan().launches};
  bool together{false};
  bool csv{false};
  std::string output{};
  std::string compare{};
  std::optional<double> tolerance{};
  bool profile{false};
  std::string trace{};
};

/// The entries that a command line asks for. Refuses what one process cannot do at once.
std::vector<bench::Entry> entries_of(const BenchOptions& options, const Session& session) {
  bench::Choice choice{
      .batches = options.batches, .concurrency = options.concurrency, .threads = session.threads};
  std::vector<bool> is_float;
  for (const std::string& text : options.models) {
    choice.settings.push_back(bench::setting_from(text));
    const std::string& path = choice.settings.back().path;
    is_float.push_back(read_metadata(path).is_null());
    tell_devices(path, foreign_devices(path), session);
  }
  const auto memory = [&](const bench::Setting& setting) {
    return setting.memory == choice.settings[0].memory;
  };
  if (options.together && !std::ranges::all_of(choice.settings, memory))
    throw UsageError("--together runs all models in one process, which has one setting of memory");
  return bench::entries_of(choice, is_float);
}

std::string milliseconds(double seconds) {
  const double value = 1000 * seconds;
  return fmt::format("{:.{}f}", value, value < 10 ? 3 : value < 100 ? 2 : 1);
}

std::string text_of(const bench::Ratio& ratio) {
  if (!ratio.interval) return "- (too few launches for an interval)";
  const std::string interval = fmt::format("{:.2f} to {:.2f}", ratio.interval->low, ratio.interval->high);
  if (!ratio.is_a_difference()) return fmt::format("no difference seen ({})", interval);
  return fmt::format("{:.2f} ({})", ratio.value, interval);
}

std::string ratio_text(const bench::Result& result, std::size_t position) {
  std::vector<bench::Entry> entries;
  for (const bench::Measured& measured : result.entries) entries.push_back(measured.entry);
  const std::size_t baseline = bench::baseline_of(entries, position);
  if (baseline == position) return "1";
  return text_of(bench::speed_ratio(result.entries[baseline], result.entries[position]));
}

std::string table_of(const bench::Result& result) {
  std::vector<std::vector<std::string>> rows{{"model", "engine", "size", "load ms", "first ms", "min ms",
                                              "median", "p95", "p99", "per second", "peak memory", "ratio"}};
  for (std::size_t i = 0; i < result.entries.size(); ++i) {
    const bench::Measured& m = result.entries[i];
    rows.push_back({bench::name_of(m.entry), m.engine, readable_size(m.bytes),
                    milliseconds(bench::median(m.load_seconds)), milliseconds(bench::median(m.first_seconds)),
                    milliseconds(m.latency.min), milliseconds(m.latency.median), milliseconds(m.latency.p95),
                    milliseconds(m.latency.p99), fmt::format("{:.1f}", m.throughput()),
                    m.peak_memory ? readable_size(*m.peak_memory) : "-", ratio_text(result, i)});
  }
  return text_table(rows);
}

std::string text_of(const bench::Result& result) {
  const bench::Launches& rounds = result.entries.front().rounds;
  std::string text =
      table_of(result) + fmt::format("{} launch{} in {}, {} rounds each; {}\n", rounds.size(),
                                     rounds.size() == 1 ? "" : "es",
                                     result.together ? "one process" : "a process for each model",
                                     rounds.front().size(), bench::text_of(result.machine));
  if (result.entries.size() > 1)
    text += "ratio: the mean over launches of the median ratio of a round; medians are of all calls\n";
  for (const std::string& warning : result.warnings) text += fmt::format("warning: {}\n", warning);
  return text;
}

std::string text_of(const bench::Comparison& comparison, const std::string& path) {
  std::vector<std::vector<std::string>> rows{{"model", "new/old", "", ""}};
  for (const bench::Change& change : comparison.changes)
    rows.push_back({change.name, text_of(change.time), change.is_relative ? "relative to the first" : "",
                    change.is_regression ? "REGRESSION" : ""});
  std::string text = fmt::format("\ntime as against '{}'\n{}", path, text_table(rows));
  for (const std::string& note : comparison.notes) text += fmt::format("note: {}\n", note);
  return text;
}

/// How much the calls of the steadiest entry scatter: what makes them slow is the machine, not the model.
double least_scatter(const std::vector<bench::Measured>& entries) {
  const auto scatter = [](const bench::Measured& measured) {
    return measured.latency.p90 / measured.latency.median;
  };
  return std::ranges::min(entries | std::views::transform(scatter));
}

bench::Result measure(const BenchOptions& options, const Session& session, Steps& steps) {
  const bench::Machine machine = bench::this_machine();
  const std::string date = utc_now();
  const bench::ProcessorTime before = bench::processor_time();
  const bench::Plan plan{.launches = options.launches,
                         .rounds = options.rounds > 0 ? std::optional(options.rounds) : std::nullopt,
                         .seconds = options.seconds,
                         .warmup = options.warmup,
                         .together = options.together};
  const std::vector<bench::Entry> entries = entries_of(options, session);
  bench::Result result = steps.run("bench", [&](const Progress& progress) {
    return bench::measure(entries, options.data, plan, bench_workers(session), progress);
  });
  result.machine = machine;
  result.threads = at::get_num_threads();
  result.date = date;
  result.command = session.command_line;
  std::ranges::copy(
      bench::warnings_about(machine, before, bench::processor_time(), least_scatter(result.entries)),
      std::back_inserter(result.warnings));
  return result;
}

/// Writes a JSON value as a file; without a path none.
void write_json(const std::string& path, const json& value, const Session& session) {
  if (path.empty()) return;
  OutputFiles files(session);
  files.write_json(path, value);
  files.commit();
}

void run_measurement(const BenchOptions& options, Session& session) {
  std::optional<bench::Result> old;
  if (!options.compare.empty()) old = bench::result_from(read_json(options.compare), options.compare);
  Steps steps(session);
  const bench::Result result = measure(options, session, steps);
  json value = bench::to_json(result);
  std::string text = options.csv ? bench::csv_of(result) : text_of(result);
  if (old) {
    const bench::Comparison comparison = bench::compare(*old, result, options.tolerance.value_or(kTolerance));
    value["comparison"] = bench::to_json(comparison);
    if (!options.csv) text += text_of(comparison, options.compare);
    if (comparison.has_regressions()) session.exit_code = kBadInput;
  }
  write_json(options.output, value, session);
  print_result(session, text, value);
}

void run_profile(const BenchOptions& options, const Session& session) {
  constexpr std::size_t kRounds = 20;
  Steps steps(session);
  const std::vector<bench::Entry> entries = entries_of(options, session);
  std::vector<bench::ProfiledEntry> profiled = steps.run("profile", [&](const Progress& progress) {
    return bench::profile(entries, options.data, options.rounds > 0 ? options.rounds : kRounds,
                          bench_workers(session), progress);
  });
  std::vector<std::string> names;
  std::vector<bench::Profile> profiles;
  for (bench::ProfiledEntry& one : profiled) {
    names.push_back(bench::name_of(one.entry));
    profiles.push_back(std::move(one.profile));
  }
  write_json(options.trace, bench::chrome_trace(names, profiles), session);
  print_result(session, profile_text(names, profiles), profile_json(names, profiles));
}

/// Options that would have no effect.
void refuse_idle_options(const BenchOptions& options, const Session& session) {
  const bool is_profile = options.profile || !options.trace.empty();
  const bool has_idle_of_profile = options.csv || !options.compare.empty() || !options.output.empty() ||
                                   options.concurrency != BenchOptions().concurrency || options.warmup ||
                                   options.together;
  if (is_profile && has_idle_of_profile)
    throw UsageError(
        "--profile measures no latencies: leave --csv, --compare, --output, --concurrency, --warmup and "
        "--together out");
  if (options.tolerance && options.compare.empty())
    throw UsageError("--tolerance is for --compare, which is not there");
  if (options.csv && session.json) throw UsageError("--csv and --json print the same: leave one out");
}

void run_bench(const BenchOptions& options, Session& session) {
  refuse_idle_options(options, session);
  if (options.profile || !options.trace.empty()) return run_profile(options, session);
  run_measurement(options, session);
}

void add_bench_options(const Command& command, BenchOptions& options) {
  add_options(
      command,
      {required(model_input({"MODEL.pt", into(options.models),
                             "TorchScript files with their settings; ratios are to the first"})),
       required(input({"--data", into(options.data), "Samples, as for 'tsq quantize --calib'", "DATA.pt"})),
       {"--batch", into(options.batches), "Batches of so many rows, made of the samples: 1,16", "N,…",
        within(1, 1000000), ','},
       {"--concurrency", into(options.concurrency), "Threads that call one model at once (default: 1)", "N,…",
        within(1, 1024), ','},
       {"--duration", into(options.seconds), "Seconds of timed calls of each model (default: 6)", "SECONDS",
        within(0.001, 1e6)},
       {"--rounds", into(options.rounds), "Timed turns of each model in each launch, in place of a duration",
        "N", within(1, 1000000)},
       {"--warmup", into(options.warmup),
        "Calls of each model before (default: until they no longer become faster)", "N", within(0, 1000000)},
       {"--launches", into(options.launches),
        "How often all is begun anew with fresh processes (default: 5): two processes with the same "
        "model differ in speed, and ratios have an interval from three launches on",
        "N", within(1, 1000)},
       {"--together", into(options.together),
        "All models in one process, as a server has them (default: one process each)"},
       {"--csv", into(options.csv), "Print comma-separated values in place of a table"},
       output({"-o,--output", into(options.output), "Write the result as JSON, for --compare", "R.json"}),
       input({"--compare", into(options.compare),
              "An earlier result: exit with 1 where a model has become slower, with its whole interval",
              "OLD.json"}),
       {"--tolerance", into(options.tolerance), "How much slower is no regression (default: 0.02)",
        "FRACTION", within(0.0, 10.0)},
       {"--profile", into(options.profile), "Time by operator kind and by layer, in place of latencies"},
       output({"--trace", into(options.trace),
               "Write the profile as a Chrome trace (chrome://tracing, Perfetto)", "TRACE.json"})});
}

}  // namespace

void add_bench(CLI::App& app, Session& session) {
  add_command<BenchOptions>(app, session, kBenchHelp, add_bench_options, run_bench);
}

}  // namespace tsq::cli
