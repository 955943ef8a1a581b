#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>
#include <tsq/agreement.h>
#include <tsq/data.h>
#include <tsq/error.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_number.h"
#include "cli/commands/commands.h"
#include "cli/printing/json_list.h"
#include "cli/printing/progress.h"
#include "cli/printing/text_table.h"
#include "cli/process/model_file.h"
#include "cli/process/options.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kCompareHelp{
    .name = "compare",
    .summary = "Compare the outputs of two models on the same data",
    .examples =
        "  tsq compare model.pt model.int8.pt --data test.pt\n"
        "  tsq compare reference.pt model.int8.pt --data test.npy --json\n\n"
        "SQNR is the power of the first model's output over the power of the difference, in dB: above 20 dB "
        "a classifier\n"
        "seldom changes its decision. For embeddings look at the mean cosine of rows, and at how often the "
        "most similar\n"
        "other row is the same one. Use other data than the model was calibrated on."};

using nlohmann::json;

struct CompareOptions {
  std::string first{};
  std::string second{};
  std::string data{};
};

using NamedAgreement = std::pair<std::string, Agreement>;

struct Comparison {
  std::vector<NamedAgreement> outputs{};
  NamedAgreement whole{"whole", Agreement()};
};

std::string shape_text(const at::Tensor& tensor) { return fmt::format("{}", fmt::join(tensor.sizes(), "x")); }

void add_sample(Comparison& comparison, const at::IValue& wanted, const at::IValue& got, std::size_t sample) {
  const auto left = tensors_of(wanted);
  const auto right = tensors_of(got);
  if (left.size() != right.size()) {
    throw Error(ErrorCode::BadModel,
                fmt::format("the models' results differ in kind: {} and {} tensors for sample {}",
                            left.size(), right.size(), sample),
                "compare two versions of one model");
  }
  if (comparison.outputs.empty()) {
    for (const auto& [name, tensor] : left) comparison.outputs.emplace_back(name, Agreement());
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].second.sizes() != right[i].second.sizes() || i >= comparison.outputs.size()) {
      throw Error(ErrorCode::BadModel,
                  fmt::format("'{}' has shape {} in the first model and {} in the second for sample {}",
                              left[i].first, shape_text(left[i].second), shape_text(right[i].second), sample),
                  "compare two versions of one model");
    }
    comparison.outputs[i].second.add(left[i].second, right[i].second);
    comparison.whole.second.add(left[i].second, right[i].second);
  }
}

Comparison compare(ModelFile& first, ModelFile& second, const std::vector<Sample>& samples,
                   const Progress& progress) {
  Comparison comparison;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    // A model may write into its arguments.
    Sample copy;
    for (const at::IValue& value : samples[i]) copy.push_back(value.deepcopy());
    const at::IValue wanted = run(first, copy, i);
    add_sample(comparison, wanted, run(second, samples[i], i), i);
    progress(i + 1, samples.size());
  }
  if (comparison.outputs.empty()) {
    throw Error(ErrorCode::BadModel, fmt::format("model '{}' returns no tensor to compare", first.path));
  }
  return comparison;
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f} %", 100 * *share) : "-";
}

json output_json(const NamedAgreement& output) {
  const auto& [name, agreement] = output;
  return {{"output", name},
          {"sqnr_db", detail::finite_or_null(agreement.sqnr_db())},
          {"largest_error", detail::finite_or_null(agreement.largest_error())},
          {"cosine", detail::finite_or_null(agreement.cosine())},
          {"row_cosine", detail::finite_or_null(agreement.row_cosine())},
          {"top1_agreement", detail::finite_or_null(agreement.top1())},
          {"nearest_agreement", detail::finite_or_null(agreement.nearest())},
          {"equal_bits", agreement.equal_bits()},
          {"numbers", agreement.numbers()}};
}

std::vector<std::string> output_row(const NamedAgreement& output) {
  const auto& [name, agreement] = output;
  const std::optional<double> row_cosine = agreement.row_cosine();
  return {name,
          fmt::format("{:.2f}", agreement.sqnr_db()),
          fmt::format("{:.4g}", agreement.largest_error()),
          fmt::format("{:.6f}", agreement.cosine()),
          row_cosine ? fmt::format("{:.4f}", *row_cosine) : "-",
          percent(agreement.top1()),
          percent(agreement.nearest()),
          agreement.equal_bits() ? "yes" : "no"};
}

std::string text_of(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows{
      {"", "SQNR dB", "largest error", "cosine", "of rows", "top-1 agrees", "nearest agrees", "equal bits"}};
  std::ranges::transform(comparison.outputs, std::back_inserter(rows), output_row);
  if (comparison.outputs.size() > 1) rows.push_back(output_row(comparison.whole));
  return text_table(rows);
}

void run_compare(const CompareOptions& options, const Session& session) {
  Steps steps(session);
  ModelFile first = steps.run("load", [&](const Progress&) { return load_model(options.first); });
  ModelFile second = steps.run("load", [&](const Progress&) { return load_model(options.second); });
  tell_devices(first, session);
  tell_devices(second, session);
  const std::vector<Sample> samples = load_samples(options.data, first.module);
  const Comparison comparison = steps.run(
      "compare", [&](const Progress& progress) { return compare(first, second, samples, progress); });
  print_result(session, text_of(comparison),
               {{"first", options.first},
                {"second", options.second},
                {"samples", samples.size()},
                {"outputs", json_list(comparison.outputs, output_json)},
                {"whole", output_json(comparison.whole)}});
}

void add_compare_options(CLI::App& command, CompareOptions& options) {
  add_options(
      command,
      {required({"FLOAT.pt", into(options.first), "The model to compare with"}),
       required({"QUANT.pt", into(options.second), "The model to judge"}),
       required({"--data", into(options.data), "Samples, as for 'tsq quantize --calib'", "DATA.pt"})});
}

}  // namespace

void add_compare(CLI::App& app, Session& session) {
  add_command<CompareOptions>(app, session, kCompareHelp, add_compare_options, run_compare);
}

}  // namespace tsq::cli
