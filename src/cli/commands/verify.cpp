#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/compare_layers.h>
#include <tsq/data.h>
#include <tsq/engine_lock.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/printing/json_list.h"
#include "cli/printing/progress.h"
#include "cli/printing/text_table.h"
#include "cli/process/model_file.h"
#include "cli/process/options.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kVerifyHelp{
    .name = "verify",
    .summary = "Compare each layer's output in two models: where the accuracy is lost",
    .examples =
        "  tsq verify model.pt model.int8.pt --data test.pt\n\n"
        "Rows are in the order of the flow. SQNR is that of the layer's output with the errors of all layers "
        "before;\n"
        "alone, that of the layer when its input is the float model's: low where an error is born. Weight is "
        "that of\n"
        "the layer's weight. Outside is the share of float values that the range of codes does not reach, "
        "and codes\n"
        "are those of the range that occur. Outlier is the largest float value over the 99th percentile. * "
        "is "
        "without\n"
        "the factors of channels that a later layer's weight takes back."};

struct VerifyOptions {
  std::string first{};
  std::string second{};
  std::string data{};
  std::size_t samples{16};
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

std::string text_of(const std::vector<LayerComparison>& rows) {
  std::vector<std::vector<std::string>> cells{
      {"layer", "kernel", "float", "SQNR dB", "change", "alone", "weight", "outside", "codes", "outlier"}};
  std::optional<double> before;
  for (const LayerComparison& row : rows) {
    cells.push_back(line_of(row, before));
    before = row.sqnr_db;
  }
  std::string text = text_table(cells) + "most of the error is born in:";
  for (const LayerComparison* row : lowest_alone(rows))
    text += fmt::format(" {} ({}, {:.1f} dB alone)", row->layer, row->kernel, *row->alone_sqnr_db);
  return text + '\n';
}

/// Of files of tsq's, which say what they are.
void refuse_int8(const std::string& first, const std::string& second) {
  const nlohmann::json metadata = read_metadata(first);
  if (metadata.is_null() || metadata.value("stage", "") != "quantized") return;
  throw Error(ErrorCode::BadModel, fmt::format("'{}' is the quantized model", first),
              read_metadata(second).is_null() ? "give the float model first" : "give the float model");
}

void run_verify(const VerifyOptions& options, const Session& session) {
  const ModelFile first = load_model(options.first);
  const ModelFile second = load_model(options.second);
  refuse_int8(options.first, options.second);
  tell_devices(first, session);
  tell_devices(second, session);
  std::vector<Sample> samples = load_samples(options.data, first.module);
  samples.resize(std::min(samples.size(), options.samples));
  set_engine(second.engine);
  Steps steps(session);
  const std::vector<LayerComparison> rows = steps.run(
      "verify", [&](const Progress&) { return compare_layers(first.module, second.module, samples); });
  print_result(session, text_of(rows),
               {{"first", options.first},
                {"second", options.second},
                {"samples", samples.size()},
                {"layers", json_list(rows, &LayerComparison::to_json)}});
}

void add_verify_options(CLI::App& command, VerifyOptions& options) {
  add_options(
      command,
      {required({"FLOAT.pt", into(options.first), "The model that is right, with its modules' names"}),
       required({"INT8.pt", into(options.second), "The model to judge, of any tool"}),
       required({"--data", into(options.data), "Samples, as for 'tsq quantize --calib'", "DATA.pt"}),
       {"--samples", into(options.samples), "How many of them, from the first on (default: 16)", "N",
        within(1, 1000000)}});
}

}  // namespace

void add_verify(CLI::App& app, Session& session) {
  add_command<VerifyOptions>(app, session, kVerifyHelp, add_verify_options, run_verify);
}

}  // namespace tsq::cli
