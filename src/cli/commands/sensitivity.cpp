#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/sensitivity.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "cli/commands/commands.h"
#include "cli/commands/configuration.h"
#include "cli/commands/float_model.h"
#include "cli/printing/decisions.h"
#include "cli/printing/progress.h"
#include "cli/printing/summary.h"
#include "cli/process/failure.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kSensitivityHelp{
    .name = "sensitivity",
    .summary = "Rank the layers by the accuracy that each costs in int8",
    .examples =
        "  tsq sensitivity model.pt --calib data.pt\n"
        "  tsq sensitivity model.pt --calib data.pt --data test.pt --samples 64 --report layers.json\n"
        "  tsq sensitivity model.pt --calib data.pt --quick\n"
        "  tsq sensitivity model.pt --calib data.pt --min-sqnr 25 --output q.json\n"
        "  tsq quantize model.pt --calib data.pt --qconfig q.json --output model.int8.pt\n\n"
        "Each layer is judged alone, with all others in float, then together with all layers that cost less. "
        "--output writes a\n"
        "QConfigMapping that keeps the most costly layers float: as many as --min-sqnr needs, or "
        "--float-layers.\n"
        "'tsq quantize --min-sqnr' finds fewer, and needs no file in between."};

constexpr double kDefaultSqnr = 20;

struct SensitivityCommandOptions {
  std::string model{};
  std::string calib{};
  std::string data{};
  std::size_t samples{16};
  bool quick{false};
  std::string output{};
  std::string report{};
  std::optional<double> min_sqnr{};
  std::optional<std::size_t> float_layers{};
  std::vector<std::string> decisions{};
  ConfigurationOptions configuration{};
};

struct Ranked {
  Sensitivity sensitivity{};
  std::size_t float_layers{0};  ///< of the mapping
  QConfigMapping mapping{};
  std::vector<std::pair<std::string, double>> seconds{};
};

void check_usage(const SensitivityCommandOptions& options) {
  if (options.configuration.mode == "static" && options.calib.empty()) {
    throw UsageError(
        "mode 'static' needs calibration data; give --calib DATA.pt (see 'tsq sensitivity --help')");
  }
  if (options.calib.empty() && options.data.empty())
    throw UsageError("layers are judged on samples; give --data DATA.pt (see 'tsq sensitivity --help')");
  if (options.min_sqnr && options.float_layers)
    throw UsageError("--min-sqnr and --float-layers both say how many layers stay float; give one of them");
  if (options.output.empty() && (options.min_sqnr || options.float_layers)) {
    throw UsageError(fmt::format("{} applies to the mapping; give --output Q.json",
                                 options.min_sqnr ? "--min-sqnr" : "--float-layers"));
  }
}

std::size_t float_layers_of(const SensitivityCommandOptions& options, const Sensitivity& found) {
  if (options.float_layers) return std::min(*options.float_layers, found.layers.size());
  const double wanted = options.min_sqnr.value_or(kDefaultSqnr);
  if (const auto layers = found.float_layers_for(wanted)) return *layers;
  throw Error(ErrorCode::BadConfig,
              fmt::format("an SQNR of {} dB is out of reach: with all layers in float it is {:.2f} dB",
                          wanted, found.float_db),
              "lower --min-sqnr, or give --float-layers");
}

QConfigMapping mapping_of(const Sensitivity& found, std::size_t float_layers, const QConfigMapping& mapping) {
  std::vector<QuantizedLayer> kept;
  for (std::size_t i = 0; i < float_layers; ++i) kept.push_back(found.layers[i].layer);
  return keep_float(mapping, kept);
}

Ranked rank(const SensitivityCommandOptions& options, const Session& session) {
  OutputFiles files(session);
  const Configuration chosen = configuration_to_lower(options.configuration);
  Steps steps(session);
  const ModelFile model = load_float_model(options.model, steps, session);
  const std::vector<Sample> calibration = samples_if_given(options.calib, model.module);
  const std::vector<Sample> judged =
      options.data.empty() ? calibration : load_samples(options.data, model.module);
  Prepared prepared =
      steps.run("prepare", [&](const Progress&) { return prepared_model(model.module, chosen); });
  if (!calibration.empty()) {
    steps.run("calibrate",
              [&](const Progress& progress) { calibrate(prepared, calibration, {.progress = progress}); });
  }
  Ranked ranked;
  ranked.sensitivity = steps.run("rank", [&](const Progress& progress) {
    return sensitivity(prepared, chosen.backend, judged,
                       {.samples = options.samples,
                        .decisions = named_decisions(options.decisions),
                        .quick = options.quick,
                        .lowering = lowering_options(options.configuration),
                        .progress = progress});
  });
  if (!options.output.empty()) {
    ranked.float_layers = float_layers_of(options, ranked.sensitivity);
    ranked.mapping = mapping_of(ranked.sensitivity, ranked.float_layers, chosen.mapping);
    files.write_json(options.output, ranked.mapping.to_dict());
  }
  if (!options.report.empty()) files.write_json(options.report, ranked.sensitivity.to_json());
  files.commit();
  ranked.seconds = steps.seconds();
  return ranked;
}

std::string db_text(double db) {
  return std::isinf(db) ? (db > 0 ? "inf" : "-inf") : fmt::format("{:.2f}", db);
}

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

std::string layer_table(const Sensitivity& found) {
  double macs = 0;
  double seconds = 0;
  for (const LayerSensitivity& each : found.layers) {
    macs += static_cast<double>(each.layer.macs.value_or(0));
    seconds += each.layer.seconds.value_or(0);
  }
  std::vector<std::vector<std::string>> rows{
      {"the most costly first", "alone dB", "cumulative dB", "compute", "float time"}};
  if (found.int8_agreement) rows.front().emplace_back("alone, decisions as in float");
  for (const LayerSensitivity& each : found.layers) {
    rows.push_back({each.layer.to_text(), db_text(each.alone_db), db_text(each.cumulative_db),
                    share_text(static_cast<double>(each.layer.macs.value_or(0)), macs),
                    share_text(each.layer.seconds.value_or(0), seconds)});
    if (each.alone_agreement) rows.back().push_back(fmt::format("{:.2f} %", 100 * *each.alone_agreement));
  }
  return text_table(rows);
}

std::string text_of(const SensitivityCommandOptions& options, const Ranked& ranked) {
  const Sensitivity& found = ranked.sensitivity;
  std::string text = fmt::format(
      "'{}': {} layers ({}, recipe {}), judged on {} sample{} of '{}'\n"
      "  {} when all are int8\n"
      "  time       {}\n",
      options.model, found.layers.size(), options.configuration.mode, options.configuration.recipe,
      found.samples, found.samples == 1 ? "" : "s", options.data.empty() ? options.calib : options.data,
      found.is_of_decisions
          ? fmt::format("decisions  {:.2f} % as in float", 100 * found.int8_agreement.value_or(1))
          : fmt::format("SQNR       {} dB of the worst output", db_text(found.int8_db)),
      seconds_text(ranked.seconds));
  if (found.predicted_db)
    text +=
        fmt::format("  predicted  {} dB by gradients; the layers' figures are corrected by the difference\n",
                    db_text(*found.predicted_db));
  if (!options.output.empty()) {
    const double db = ranked.float_layers < found.layers.size()
                          ? found.layers[ranked.float_layers].cumulative_db
                          : found.float_db;
    text += fmt::format("  output     {}: {} layer{} in float, {} dB\n", options.output, ranked.float_layers,
                        ranked.float_layers == 1 ? "" : "s", db_text(db));
  }
  if (!options.report.empty()) text += fmt::format("  report     {}\n", options.report);
  if (found.layers.empty()) return text;
  return text + '\n' + layer_table(found) +
         fmt::format("\nalone: {} when this layer only is int8; cumulative: when it and all below it are\n",
                     found.is_of_decisions ? "10 log10(1 / share of decisions that are others than in float)"
                                           : "SQNR of the worst output, of what varies in it,");
}

nlohmann::json to_json(const SensitivityCommandOptions& options, const Ranked& ranked) {
  nlohmann::json answer = ranked.sensitivity.to_json();
  answer.update({{"model", options.model},
                 {"mode", options.configuration.mode},
                 {"recipe", options.configuration.recipe},
                 {"steps", seconds_json(ranked.seconds)}});
  if (!options.output.empty())
    answer["output"] = {{"path", options.output}, {"float_layers", ranked.float_layers}};
  return answer;
}

void run_sensitivity(const SensitivityCommandOptions& options, const Session& session) {
  check_usage(options);
  const Ranked ranked = rank(options, session);
  print_result(session, text_of(options, ranked), to_json(options, ranked));
}

void add_sensitivity_options(const Command& command, SensitivityCommandOptions& options) {
  add_options(command,
              {required(input({"MODEL.pt", into(options.model), "The float model, a TorchScript file"})),
               input({"--calib", into(options.calib), "Calibration data; needed in static mode", "DATA.pt"}),
               input({"--data", into(options.data), "Samples to judge on (default: the calibration data)",
                      "DATA.pt"}),
               {"--samples", into(options.samples),
                "Use at most this many of them, evenly spread (default: 16)", "N", within(1, 100000000)},
               {"--quick", into(options.quick),
                "Predict each layer's figures from gradients, without making models for it"},
               decisions_option(options.decisions),
               output({"-o,--output", into(options.output),
                       "Write a QConfigMapping that keeps the most costly layers float", "Q.json"}),
               {"--min-sqnr", into(options.min_sqnr),
                "As many of them as the outputs need for this SQNR (default: 20)", "DB"},
               {"--float-layers", into(options.float_layers), "Or this number of them", "N"},
               output({"--report", into(options.report), "Also write the ranking as JSON", "R.json"})});
  add_configuration_options(command, options.configuration);
  add_lowering_options(command, options.configuration);
}

}  // namespace

void add_sensitivity(CLI::App& app, Session& session) {
  add_command<SensitivityCommandOptions>(app, session, kSensitivityHelp, add_sensitivity_options,
                                         run_sensitivity);
}

}  // namespace tsq::cli
