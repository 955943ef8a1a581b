#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>
#include <tsq/compare_layers.h>
#include <tsq/data.h>
#include <tsq/detectors.h>
#include <tsq/engine_lock.h>
#include <tsq/error.h>
#include <tsq/lowering.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/text_table.h"
#include "cli/commands/commands.h"
#include "cli/commands/configuration.h"
#include "cli/printing/json_list.h"
#include "cli/printing/progress.h"
#include "cli/printing/texts.h"
#include "cli/process/failure.h"
#include "cli/process/model_file.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"
#include "cli/process/scratch_directory.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kVerifyHelp{
    .name = "verify",
    .summary = "Compare each layer's output in two models: where the accuracy is lost",
    .examples =
        "  tsq verify model.pt model.int8.pt --data test.pt\n"
        "  tsq verify model.pt --data test.pt --qconfig a.json,b.json     # QConfigs of each layer side by "
        "side\n"
        "  tsq verify model.pt --data test.pt --detect --advice-qconfig advised.json\n\n"
        "Rows are in the order of the flow, one for each call. SQNR is that of the output with all errors "
        "before it;\n"
        "alone, that of the output when all that it reads is the float model's, rounded as in front of it: "
        "low where\n"
        "an error is born. Weight is that of the layer's weight. Outside is the share of float values that "
        "the range\n"
        "of codes does not reach, and codes are those of the range that occur. Outlier is the largest float "
        "value over\n"
        "the 99th percentile. * is without factors that later layers take back."};

struct VerifyOptions {
  std::string first{};
  std::vector<std::string> others{};
  std::string data{};
  std::size_t samples{16};
  std::vector<std::string> qconfigs{};
  std::string calibration{};
  ConfigurationOptions configuration{};
  bool detects{false};
  std::string advised_qconfig{};
  std::string advised_equalization{};
};

/// An int8 model beside the float one.
struct Compared {
  std::string name{};
  ComparedLayers layers{};
};

std::string decibels(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f}", *value) : "-";
}

std::vector<std::string> line_of(const LayerComparison& row, const std::optional<double>& before) {
  const bool has_change = before && std::isfinite(*before) && std::isfinite(row.sqnr_db);
  const std::string change = has_change ? fmt::format("{:+.1f}", row.sqnr_db - *before) : "-";
  return {row.layer,
          row.kernel,
          row.float_operator,
          decibels(row.sqnr_db) + (row.is_scaled ? " *" : ""),
          change,
          decibels(row.alone_sqnr_db),
          decibels(row.weight_sqnr_db),
          row.outside ? fmt::format("{:.2f} %", 100 * *row.outside) : "-",
          row.codes ? fmt::format("{}/{}", *row.codes_used, *row.codes) : "-",
          row.outlier ? fmt::format("{:.1f}", *row.outlier) : "-"};
}

/// The rows with the lowest SQNR alone, the lowest first; those without one are not in it.
std::vector<const LayerComparison*> lowest_alone(const std::vector<LayerComparison>& rows) {
  constexpr std::size_t kMost = 3;
  std::vector<const LayerComparison*> chosen;
  for (const LayerComparison& row : rows) {
    if (row.alone_sqnr_db && std::isfinite(*row.alone_sqnr_db)) chosen.push_back(&row);
  }
  std::ranges::stable_sort(chosen, {}, &LayerComparison::alone_sqnr_db);
  chosen.resize(std::min(kMost, chosen.size()));
  return chosen;
}

/// "3 layers have no row: no operator … (bn1, bn2, relu)", a line for each reason.
std::string without_row_text(const std::vector<LayerWithoutRow>& layers) {
  std::string text;
  for (const NoRow reason : {NoRow::WithinAnother, NoRow::NothingComparable}) {
    std::vector<std::string> names;
    for (const LayerWithoutRow& layer : layers) {
      if (layer.reason == reason) names.push_back(layer.layer);
    }
    if (names.empty()) continue;
    text += fmt::format("{} layer{} without a row: {} ({})\n", names.size(), names.size() == 1 ? "" : "s",
                        to_string(reason), first_names(names));
  }
  return text;
}

std::string text_of(const ComparedLayers& compared) {
  std::vector<std::vector<std::string>> cells{
      {"layer", "kernel", "float", "SQNR dB", "change", "alone", "weight", "outside", "codes", "outlier"}};
  std::optional<double> before;
  for (const LayerComparison& row : compared.rows) {
    cells.push_back(line_of(row, before));
    before = row.sqnr_db;
  }
  std::vector<std::string> lowest;
  for (const LayerComparison* row : lowest_alone(compared.rows))
    lowest.push_back(fmt::format("{} ({}, {:.1f} dB)", row->layer, row->kernel, *row->alone_sqnr_db));
  const std::string born =
      lowest.empty() ? "" : fmt::format("lowest alone, where errors are born: {}\n", fmt::join(lowest, ", "));
  std::vector<std::string> unseen;
  for (const LayerComparison& row : compared.rows) {
    if (!row.alone_sqnr_db && !row.is_scaled) unseen.push_back(row.layer);
  }
  const std::string not_alone =
      unseen.empty() ? "" : fmt::format("not looked at alone: {}\n", first_names(unseen));
  return text_table(cells) + "dB of each layer's own output, of its whole power\n" + born + not_alone +
         without_row_text(compared.without_row);
}

/// Several models: of each layer what each of them makes of the float model's input, and, after a slash, with
/// all errors before. A row that other models lack stands after the row before it in the model that has it.
std::string side_by_side(const std::vector<Compared>& models) {
  using Line = std::vector<std::string>;
  std::list<Line> lines{{"layer", "float"}};
  for (const Compared& model : models) lines.front().push_back(model.name);
  std::map<std::tuple<std::string, std::string, std::size_t>, std::list<Line>::iterator> known;
  for (std::size_t i = 0; i < models.size(); ++i) {
    std::map<std::pair<std::string, std::string>, std::size_t> turns;  // a layer may have several such rows
    auto before = lines.begin();
    for (const LayerComparison& row : models[i].layers.rows) {
      const std::size_t turn = turns[{row.layer, row.float_operator}]++;
      const auto [place, is_new] = known.try_emplace({row.layer, row.float_operator, turn}, before);
      if (is_new) {
        place->second = lines.insert(std::next(before), Line{row.layer, row.float_operator});
        place->second->resize(2 + models.size(), "-");
      }
      before = place->second;
      (*before)[2 + i] = fmt::format("{} / {:.1f}", decibels(row.alone_sqnr_db), row.sqnr_db);
    }
  }
  return text_table({lines.begin(), lines.end()}, {0, 1}) +
         "dB of each layer's own output, of its whole power: alone / with the errors of all layers before\n";
}

std::string text_of(const std::vector<Finding>& findings) {
  if (findings.empty()) return "detectors: nothing found\n";
  std::vector<std::vector<std::string>> cells{{"layer", "detector", "finding", "advice"}};
  for (const Finding& finding : findings)
    cells.push_back(
        {finding.layer, std::string(to_string(finding.detector)), finding.to_text(), finding.advice()});
  return text_table(cells, {0, 1, 2, 3});
}

/// Of files of tsq's, which say what they are.
void refuse_int8(const std::string& first, const std::string& second) {
  const nlohmann::json metadata = read_metadata(first);
  if (metadata.is_null() || metadata.value("stage", "") != "quantized") return;
  throw Error(ErrorCode::BadModel, fmt::format("'{}' is the quantized model", first),
              read_metadata(second).is_null() ? "give the float model first" : "give the float model");
}

void check(const VerifyOptions& options) {
  if (options.others.empty() && options.qconfigs.empty() && !options.detects)
    throw UsageError("there is nothing to compare: give INT8.pt, --qconfig or --detect");
  if (!options.detects && !(options.advised_qconfig + options.advised_equalization).empty())
    throw UsageError("--advice-qconfig and --advice-equalization write what --detect finds: add it");
  if (options.qconfigs.empty() && !options.calibration.empty())
    throw UsageError("--calib calibrates the models of --qconfig: add it, or leave --calib out");
}

Configuration configuration_with(const VerifyOptions& options, const std::string& qconfig) {
  ConfigurationOptions chosen = options.configuration;
  chosen.qconfig = qconfig;
  return configuration(chosen);
}

Compared compared_with(const ModelFile& exact, const std::string& name, const std::string& path,
                       const std::vector<Sample>& samples, Steps& steps, const Session& session) {
  const ModelFile int8 = load_model(path);
  tell_devices(int8, session);
  set_engine(int8.engine);
  return {.name = name, .layers = steps.run("verify", [&](const Progress&) {
            return compare_layers(exact.module, int8.module, samples);
          })};
}

/// The int8 model that a mapping makes, as a file.
void quantize_into(const std::string& path, const ModelFile& exact, const Configuration& chosen,
                   const std::vector<Sample>& calibration, Steps& steps) {
  Prepared prepared =
      steps.run("prepare", [&](const Progress&) { return prepared_model(exact.module, chosen); });
  steps.run("calibrate",
            [&](const Progress& progress) { calibrate(prepared, calibration, {.progress = progress}); });
  steps.run("convert", [&](const Progress& progress) {
    save(convert(prepared, chosen.backend, {.progress = progress}), path);
  });
}

/// The models that are given, and those that QConfigs make.
std::vector<Compared> all_compared(const VerifyOptions& options, const ModelFile& exact,
                                   const std::vector<Sample>& samples, const Session& session) {
  Steps steps(session);
  std::vector<Compared> compared;
  for (const std::string& path : options.others)
    compared.push_back(compared_with(exact, path, path, samples, steps, session));
  if (options.qconfigs.empty()) return compared;
  const std::vector<Sample> calibration =
      options.calibration.empty() ? samples : load_samples(options.calibration, exact.module);
  const ScratchDirectory scratch(std::filesystem::temp_directory_path());
  for (const std::string& qconfig : options.qconfigs) {
    const std::string path = scratch.path() / "int8.pt";
    quantize_into(path, exact, configuration_with(options, qconfig), calibration, steps);
    compared.push_back(compared_with(exact, qconfig, path, samples, steps, session));
  }
  return compared;
}

nlohmann::json json_of(const std::vector<Compared>& models) {
  nlohmann::json all = nlohmann::json::array();
  for (const Compared& model : models) {
    all.push_back(model.layers.to_json());
    all.back()["model"] = model.name;
  }
  return all;
}

std::vector<Finding> findings_of(const VerifyOptions& options, const ModelFile& model,
                                 const std::vector<Sample>& samples, const Session& session) {
  OutputFiles files(session);
  const Configuration chosen = configuration(options.configuration);
  std::vector<Finding> findings = Steps(session).run("detect", [&](const Progress&) {
    return detect(model.module, samples, chosen.mapping, chosen.backend);
  });
  const auto write = [&](const std::string& path, const nlohmann::json& mapping) {
    if (!path.empty()) files.write_json(path, mapping);
  };
  write(options.advised_qconfig, advised_qconfigs(chosen.mapping, findings).to_dict());
  write(options.advised_equalization, advised_equalization(findings).to_dict());
  files.commit();
  return findings;
}

void run_verify(const VerifyOptions& options, const Session& session) {
  check(options);
  const ModelFile first = load_model(options.first);
  if (!options.others.empty()) refuse_int8(options.first, options.others.front());
  tell_devices(first, session);
  std::vector<Sample> samples = load_samples(options.data, first.module);
  samples.resize(std::min(samples.size(), options.samples));
  nlohmann::json json{{"first", options.first}, {"samples", samples.size()}};
  std::string text;
  std::vector<Finding> findings;
  if (options.detects) findings = findings_of(options, first, samples, session);
  const std::vector<Compared> compared = all_compared(options, first, samples, session);
  if (compared.size() == 1) {
    text = text_of(compared.front().layers);
    json.update(compared.front().layers.to_json());
    json["second"] = compared.front().name;
  } else if (compared.size() > 1) {
    text = side_by_side(compared);
    json["models"] = json_of(compared);
  }
  if (options.detects) {
    text += text_of(findings);
    json["findings"] = json_list(findings, &Finding::to_json);
  }
  print_result(session, text, json);
}

void add_verify_options(const Command& command, VerifyOptions& options) {
  add_options(
      command,
      {required(input({"FLOAT.pt", into(options.first), "The model that is right"})),
       input({"INT8.pt", into(options.others), "The models to judge, of any tool"}),
       required(input({"--data", into(options.data), "Samples, as for 'tsq quantize --calib'", "DATA.pt"})),
       {"--samples", into(options.samples), "How many of them, from the first on (default: 16)", "N",
        within(1, 1000000)},
       configuration_input(
           {"--qconfig",
            into(options.qconfigs),
            "Quantizes the float model with each of these mappings, and compares these models too",
            "Q.json,…",
            {},
            ','}),
       input({"--calib", into(options.calibration), "What these are calibrated on (default: --data)",
              "DATA.pt"}),
       {"--recipe", into(options.configuration.recipe), "The recipe for these (default: best)", "fx|best",
        one_of({"fx", "best"})},
       {"--detect", into(options.detects),
        "Looks at the float model for outliers, unequal channels, ranges that change from sample to sample "
        "and\n"
        "weights that ask for a scale for each channel, and says what QConfig would help"},
       output({"--advice-qconfig", into(options.advised_qconfig),
               "Where the advised QConfigMapping is written", "Q.json"}),
       output({"--advice-equalization", into(options.advised_equalization),
               "Where the advised layers for 'tsq quantize --equalization' are written", "E.json"})});
  add_backend_options(command, options.configuration);
}

}  // namespace

void add_verify(CLI::App& app, Session& session) {
  add_command<VerifyOptions>(app, session, kVerifyHelp, add_verify_options, run_verify);
}

}  // namespace tsq::cli
