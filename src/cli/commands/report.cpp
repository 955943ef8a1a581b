#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>
#include <tsq/bench/machine.h>
#include <tsq/bench/result.h>
#include <tsq/data.h>
#include <tsq/detectors.h>
#include <tsq/engines.h>
#include <tsq/error.h>
#include <tsq/lowering.h>
#include <tsq/report_page.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/configuration.h"
#include "cli/printing/decisions.h"
#include "cli/printing/progress.h"
#include "cli/printing/texts.h"
#include "cli/process/model_file.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kReportHelp{
    .name = "report",
    .summary = "Write one HTML page: the graph with times and noise, ranges, decisions, models side by side",
    .examples =
        "  tsq report model.pt model.int8.pt --data test.pt --output report.html\n"
        "  tsq report model.pt best.pt fx.pt --data test.pt --output report.html    # two runs side by "
        "side\n\n"
        "The page needs no network and no server: open the file. Decisions are those of files of tsq, made "
        "anew\n"
        "on --data; detectors look at the float model, as 'tsq verify --detect' does."};

struct ReportCommandOptions {
  std::string exact{};
  std::vector<std::string> others{};
  std::string data{};
  std::string output{};
  std::string json_output{};
  std::size_t samples{16};
  std::vector<std::string> decisions{};
  bool no_times{false};
};

/// The target of an int8 file. Those of earlier versions do not say it, but name the library of programs.
std::string target_of(const nlohmann::json& metadata) {
  const bool has_programs = metadata.contains("libraries");
  return metadata.value("target", has_programs ? "fused" : "stock");
}

/// How a file of tsq's was quantized; none where another tool made it, or it does not say enough.
std::optional<Configuration> configuration_of(const nlohmann::json& metadata) {
  if (metadata.is_null() || metadata.value("stage", "") != "quantized") return std::nullopt;
  ConfigurationOptions options;
  options.backend = metadata.value("backend", "x86");
  options.recipe = metadata.value("recipe", "best");
  options.mode = metadata.value("mode", "static");
  options.target = target_of(metadata);
  Configuration chosen = configuration(options);
  const nlohmann::json& mapping = metadata.value("qconfig_mapping", nlohmann::json());
  if (mapping.is_object()) chosen.mapping = QConfigMapping::from_dict(mapping);
  return chosen;
}

/// What became of each operator of the float model, by quantizing it once more in the same way, by the plan
/// of the file.
std::vector<Decision> decisions_of(const ModelFile& exact, const std::string& path,
                                   const nlohmann::json& metadata, const std::vector<Sample>& samples) {
  try {
    const std::optional<Configuration> chosen = configuration_of(metadata);
    if (!chosen) return {};
    Prepared prepared = prepared_model(exact.module, *chosen);
    calibrate(prepared, samples);
    return convert(prepared, chosen->backend, {.plan = read_plan(path)}).report().decisions;
  } catch (const Error&) {
    return {};
  }
}

ReportedModel reported(const ModelFile& file, const nlohmann::json& metadata) {
  const auto text = [&](const char* key) {
    return metadata.is_object() ? metadata.value(key, std::string()) : std::string();
  };
  return {.name = std::filesystem::path(file.path).filename(),
          .module = std::make_shared<const torch::jit::Module>(file.module),
          .engine = file.engine,
          .bytes = file.bytes,
          .sha1 = bench::sha1_of(file.path),
          .recipe = text("recipe"),
          .mode = text("mode"),
          .target = text("stage") == "quantized" ? target_of(metadata) : ""};
}

nlohmann::json origin_json(const ReportCommandOptions& options, const std::vector<ReportedModel>& models,
                           std::size_t samples, const Session& session) {
  std::string title;
  for (const ReportedModel& model : models) title += (title.empty() ? "" : " and ") + model.name;
  const bench::Machine machine = bench::this_machine();
  return {
      {"title", title},
      {"tsq", version()},
      {"torch", TORCH_VERSION},
      {"date", utc_now()},
      {"command", session.command_line},
      {"machine",
       {{"processor", machine.processor},
        {"features", fmt::format("{}", fmt::join(machine.features, " "))},
        {"threads", at::get_num_threads()}}},
      {"data", {{"file", std::filesystem::path(options.data).filename().string()}, {"samples", samples}}}};
}

void run_report(const ReportCommandOptions& options, const Session& session) {
  OutputFiles files(session);
  Steps steps(session);
  const ModelFile exact = load_model(options.exact);
  tell_devices(exact, session);
  std::vector<Sample> samples = load_samples(options.data, exact.module);
  samples.resize(std::min(samples.size(), options.samples));
  std::vector<ReportedModel> models{reported(exact, read_metadata(options.exact))};
  for (const std::string& path : options.others) {
    const ModelFile file = load_model(path);
    tell_devices(file, session);
    const nlohmann::json metadata = read_metadata(path);
    models.push_back(reported(file, metadata));
    models.back().decisions =
        steps.run("decisions", [&](const Progress&) { return decisions_of(exact, path, metadata, samples); });
  }
  const Configuration chosen = configuration({.backend = engine_name(models.back().engine)});
  ReportOptions wanted{.times = !options.no_times, .named_decisions = named_decisions(options.decisions)};
  wanted.findings = steps.run("detect", [&](const Progress&) {
    return detect(exact.module, samples, chosen.mapping, chosen.backend);
  });
  nlohmann::json data = steps.run("report", [&](const Progress& progress) {
    wanted.progress = progress;
    return report_data(models.front(), std::span(models).subspan(1), samples, wanted);
  });
  data.update(origin_json(options, models, samples.size(), session));
  const std::string page = report_page(data);
  files.write_text(options.output, page);
  if (!options.json_output.empty()) files.write_json(options.json_output, data);
  files.commit();
  print_result(session, fmt::format("report  {} ({})\n", options.output, readable_size(page.size())),
               {{"report", options.output}, {"bytes", page.size()}, {"models", models.size()}});
}

void add_report_options(const Command& command, ReportCommandOptions& options) {
  add_options(
      command,
      {required(input({"FLOAT.pt", into(options.exact), "The model that is right"})),
       required(input({"INT8.pt", into(options.others), "The models made of it, by any tool"})),
       required(input({"--data", into(options.data), "Samples, as for 'tsq quantize --calib'", "DATA.pt"})),
       required(output({"-o,--output", into(options.output), "Where the page is written", "REPORT.html"})),
       output({"--data-output", into(options.json_output), "Where what the page shows is written, too",
               "REPORT.json"}),
       {"--samples", into(options.samples), "How many samples, from the first on (default: 16)", "N",
        within(1, 1000000)},
       decisions_option(options.decisions),
       {"--no-times", into(options.no_times), "Compare no latencies"}});
}

}  // namespace

void add_report(CLI::App& app, Session& session) {
  add_command<ReportCommandOptions>(app, session, kReportHelp, add_report_options, run_report);
}

}  // namespace tsq::cli
