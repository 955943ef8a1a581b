#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/bench/measure.h>
#include <tsq/data.h>
#include <tsq/error.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/printing/progress.h"
#include "cli/printing/text_table.h"
#include "cli/process/bench_process.h"
#include "cli/process/failure.h"
#include "cli/process/json_file.h"
#include "cli/process/model_file.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr const char* kBenchSummary = "Measure latency, throughput, memory and size of models side by side";
constexpr const char* kBenchExamples =
    "  tsq bench model.pt model.int8.pt --data test.pt --threads 1\n"
    "  tsq bench model.pt model.int8.pt@onednn,threads=2 --data test.pt --batch 1,16 --output today.json\n"
    "  tsq bench model.pt model.int8.pt --data test.pt --compare yesterday.json\n"
    "  tsq bench model.pt model.int8.pt --data test.pt --profile --trace trace.json\n"
    "  tsq bench model.int8.pt --data test.pt --concurrency 1,4 --threads 1\n\n"
    "Settings of a model stand after an @: an engine (x86, fbgemm, qnnpack, onednn); its form (as_saved, "
    "frozen,\n"
    "fused); threads=N; batch=N; memory=kept (freed memory stays in the process, as 'tsq run' has it) or\n"
    "memory=system; channels_last. A float file without a form is measured frozen and fused for oneDNN, "
    "which is\n"
    "what int8 has to beat, and as it was saved.\n"
    "Models take turns, so that a change of the machine's speed meets all of them. The ratio says how many "
    "times as\n"
    "fast a model is as the first of its batch size, with its 95 % interval.";

using nlohmann::json;

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
  double tolerance{0.02};
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
  const std::string interval = fmt::format("{:.2f} to {:.2f}", ratio.interval.low, ratio.interval.high);
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

void print_table(const bench::Result& result) {
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
  std::cout << text_table(rows);
}

void print_text(const bench::Result& result) {
  print_table(result);
  const bench::Launches& rounds = result.entries.front().rounds;
  std::cout << fmt::format("{} launch{} in {}, {} rounds each; {}\n", rounds.size(),
                           rounds.size() == 1 ? "" : "es",
                           result.together ? "one process" : "a process for each model",
                           rounds.front().size(), bench::text_of(result.machine));
  for (const std::string& warning : result.warnings) std::cout << fmt::format("warning: {}\n", warning);
}

void print_text(const bench::Comparison& comparison, const std::string& path) {
  std::cout << fmt::format("\ntime as against '{}'\n", path);
  std::vector<std::vector<std::string>> rows{{"model", "new/old", "", ""}};
  for (const bench::Change& change : comparison.changes)
    rows.push_back({change.name, text_of(change.time), change.is_relative ? "relative to the first" : "",
                    change.is_regression ? "REGRESSION" : ""});
  std::cout << text_table(rows);
  for (const std::string& note : comparison.notes) std::cout << fmt::format("note: {}\n", note);
}

/// How much the calls of the steadiest entry scatter: what makes them slow is the machine, not the model.
double least_scatter(const std::vector<bench::Measured>& entries) {
  double least = 0;
  for (const bench::Measured& measured : entries) {
    const double scatter = measured.latency.p90 / measured.latency.median;
    least = least == 0 ? scatter : std::min(least, scatter);
  }
  return least;
}

bench::Result measure(const BenchOptions& options, const Session& session, Steps& steps) {
  const bench::Machine machine = bench::this_machine();
  const bench::ProcessorTime before = bench::processor_time();
  const bench::Plan plan{.launches = options.launches,
                         .rounds = options.rounds > 0 ? std::optional(options.rounds) : std::nullopt,
                         .seconds = options.seconds,
                         .warmup = options.warmup,
                         .together = options.together};
  const std::vector<bench::Entry> entries = entries_of(options, session);
  bench::Result result = steps.run("bench", [&](const Progress& progress) {
    return bench::measure(entries, options.data, plan, start_bench_worker, progress);
  });
  result.machine = machine;
  result.threads = session.threads;
  result.warnings =
      bench::warnings_about(machine, before, bench::processor_time(), least_scatter(result.entries));
  return result;
}

void write(const std::string& path, const BenchOptions& options, const json& value) {
  std::vector<std::string> inputs{options.data};
  for (const std::string& model : options.models) inputs.push_back(bench::setting_from(model).path);
  OutputFiles files(std::move(inputs));
  files.claim(path);
  files.write_text(path, value.dump(2, ' ', false, json::error_handler_t::replace) + '\n');
  files.commit();
}

void run_measurement(const BenchOptions& options, Session& session) {
  std::optional<bench::Result> old;
  if (!options.compare.empty()) old = bench::result_from(read_json(options.compare), options.compare);
  Steps steps(session);
  const bench::Result result = measure(options, session, steps);
  json value = bench::to_json(result);
  std::optional<bench::Comparison> comparison;
  if (old) {
    comparison = bench::compare(*old, result, options.tolerance);
    value["comparison"] = bench::to_json(*comparison);
    if (comparison->has_regressions()) session.exit_code = kBadInput;
  }
  if (!options.output.empty()) write(options.output, options, value);
  if (session.speaks_text() && options.csv) std::cout << bench::csv_of(result);
  if (session.speaks_text() && !options.csv) print_text(result);
  if (session.speaks_text() && !options.csv && comparison) print_text(*comparison, options.compare);
  print_json(session, value);
}

/// Adds a line to a table of a profile: for each model milliseconds and the number of operators.
void add_line(std::vector<std::vector<std::string>>& cells, const bench::ProfileRow& row) {
  std::vector<std::string> line{row.name};
  for (std::size_t i = 0; i < row.seconds.size(); ++i)
    line.insert(line.end(), {fmt::format("{:.3f}", 1000 * row.seconds[i]), std::to_string(row.counts[i])});
  if (row.seconds.size() > 1) {
    const double difference = row.seconds.back() - row.seconds.front();
    line.push_back(fmt::format("{:+.3f}{}", 1000 * difference, difference > 0 ? " slower" : ""));
  }
  cells.push_back(std::move(line));
}

/// Models have their numbers as headings.
void print_rows(const std::string& title, const std::vector<bench::ProfileRow>& rows) {
  const std::size_t models = rows.front().seconds.size();
  std::vector<std::vector<std::string>> cells{{title}};
  for (std::size_t i = 1; i <= models; ++i) cells[0].insert(cells[0].end(), {fmt::format("({}) ms", i), "n"});
  if (models > 1) cells[0].push_back(fmt::format("({}) - (1)", models));
  bench::ProfileRow whole{.name = "whole run",
                          .counts = std::vector<std::size_t>(models),
                          .seconds = std::vector<double>(models)};
  for (const bench::ProfileRow& row : rows) {
    add_line(cells, row);
    for (std::size_t i = 0; i < models; ++i) {
      whole.seconds[i] += row.seconds[i];
      whole.counts[i] += row.counts[i];
    }
  }
  add_line(cells, whole);
  std::cout << text_table(cells) << '\n';
}

json to_json(const std::vector<bench::ProfileRow>& rows) {
  json value = json::array();
  for (const bench::ProfileRow& row : rows)
    value.push_back({{"name", row.name}, {"counts", row.counts}, {"seconds", row.seconds}});
  return value;
}

void run_profile(const BenchOptions& options, const Session& session) {
  constexpr std::size_t kRounds = 20;
  Steps steps(session);
  const std::vector<bench::Entry> entries = entries_of(options, session);
  std::vector<bench::ProfiledEntry> profiled = steps.run("profile", [&](const Progress& progress) {
    return bench::profile(entries, options.data, options.rounds > 0 ? options.rounds : kRounds,
                          start_bench_worker, progress);
  });
  std::vector<std::string> names;
  std::vector<bench::Profile> profiles;
  for (bench::ProfiledEntry& one : profiled) {
    names.push_back(bench::name_of(one.entry));
    profiles.push_back(std::move(one.profile));
  }
  if (!options.trace.empty()) write(options.trace, options, bench::chrome_trace(names, profiles));
  const std::vector<bench::ProfileRow> kinds = bench::by_kind(profiles);
  const std::vector<bench::ProfileRow> layers = bench::by_layer(profiles);
  if (session.speaks_text()) {
    for (std::size_t i = 0; i < names.size(); ++i) std::cout << fmt::format("({}) {}\n", i + 1, names[i]);
    std::cout << '\n';
    print_rows("operator", kinds);
    print_rows("layer, with what follows it", layers);
  }
  print_json(session, {{"models", names}, {"kinds", to_json(kinds)}, {"layers", to_json(layers)}});
}

void check(const BenchOptions& options) {
  if (!options.profile) return;
  if (options.csv || !options.compare.empty() || !options.output.empty())
    throw UsageError("--profile measures no latencies: leave --csv, --compare and --output out");
}

void run_bench(BenchOptions options, Session& session) {
  options.profile = options.profile || !options.trace.empty();
  check(options);
  if (options.profile) return run_profile(options, session);
  run_measurement(options, session);
}

void add_amounts(CLI::App& command, BenchOptions& options) {
  command.add_option("--duration", options.seconds, "Seconds of timed calls of each model (default: 6)")
      ->check(CLI::Range(0.001, 1e6).description(""))
      ->type_name("SECONDS");
  command
      .add_option("--rounds", options.rounds,
                  "Timed turns of each model in each launch, in place of a duration")
      ->check(CLI::Range(1, 1000000).description(""))
      ->type_name("N");
  command
      .add_option("--warmup", options.warmup,
                  "Calls of each model before (default: until they no longer become faster)")
      ->check(CLI::Range(0, 1000000).description(""))
      ->type_name("N");
  command
      .add_option(
          "--launches", options.launches,
          "How often all is begun anew with fresh processes (default: 5): two processes with the same "
          "model differ in speed, and intervals account for that from two launches on")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("N");
  command.add_flag("--together", options.together,
                   "All models in one process, as a server has them (default: one process each)");
}

void add_outputs(CLI::App& command, BenchOptions& options) {
  command.add_flag("--csv", options.csv, "Print comma-separated values in place of a table");
  command.add_option("-o,--output", options.output, "Write the result as JSON, for --compare")
      ->type_name("R.json");
  command
      .add_option("--compare", options.compare,
                  "An earlier result: exit with 1 where a model has become slower, with its whole interval")
      ->type_name("OLD.json");
  command.add_option("--tolerance", options.tolerance, "How much slower is no regression (default: 0.02)")
      ->check(CLI::Range(0.0, 10.0).description(""))
      ->type_name("FRACTION");
  command.add_flag("--profile", options.profile, "Time by operator kind and by layer, in place of latencies");
  command
      .add_option("--trace", options.trace,
                  "Write the profile as a Chrome trace (chrome://tracing, Perfetto)")
      ->type_name("TRACE.json");
}

}  // namespace

void add_bench(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, session, "bench", kBenchSummary, kBenchExamples);
  const auto options = std::make_shared<BenchOptions>();
  command
      ->add_option("MODEL.pt", options->models,
                   "TorchScript files with their settings; ratios are to the first")
      ->required()
      ->type_name("");
  command->add_option("--data", options->data, "Samples, as for 'tsq quantize --calib'")
      ->required()
      ->type_name("DATA.pt");
  command->add_option("--batch", options->batches, "Batches of so many rows, made of the samples: 1,16")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000000).description(""))
      ->type_name("N,…");
  command
      ->add_option("--concurrency", options->concurrency, "Threads that call one model at once (default: 1)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N,…");
  add_amounts(*command, *options);
  add_outputs(*command, *options);
  command->callback(
      [options, &session] { session.action = [options, &session] { run_bench(*options, session); }; });
}

}  // namespace tsq::cli
