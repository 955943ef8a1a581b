#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>
#include <tsq/agreement.h>
#include <tsq/data.h>
#include <tsq/decision_counts.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_number.h"
#include "base/mapped.h"
#include "base/text_table.h"
#include "cli/commands/commands.h"
#include "cli/printing/decisions.h"
#include "cli/printing/json_list.h"
#include "cli/printing/progress.h"
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
        "SQNR is the power of what varies in the first model's output over the power of the difference, in "
        "dB, as that of\n"
        "'tsq quantize': above 20 dB a classifier seldom changes its decision. Plain is that of the whole "
        "power, with\n"
        "what the output has in common everywhere. For embeddings look at the mean cosine of rows, and at "
        "how often the "
        "most similar\n"
        "other row is the same one. Decisions are those of outputs that come from a softmax or sigmoid, are "
        "read "
        "by an\n"
        "argmax, or have the shape of logits; --decisions names others. Use other data than the model was "
        "calibrated on."};

using nlohmann::json;

struct CompareOptions {
  std::string first{};
  std::string second{};
  std::string data{};
  std::vector<std::string> decisions{};
};

double ratio_db(double power, double error) {
  return error == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(power / error);
}

/// One output over all samples.
struct ComparedOutput {
  std::string name{};
  Agreement agreement{};
  OutputPower power{};

  [[nodiscard]] double sqnr_db() const { return ratio_db(power.power(), agreement.error_power()); }
};

struct Comparison {
  DecisionCounts decisions;
  std::vector<ComparedOutput> outputs{};
  Agreement whole{};

  [[nodiscard]] double whole_db() const {
    double power = 0;
    for (const ComparedOutput& output : outputs) power += output.power.power();
    return ratio_db(power, whole.error_power());
  }
};

JudgedDecisions decisions_of_all(const Comparison& comparison) {
  JudgedDecisions all{.reason = "no output is"};
  for (const ComparedOutput& output : comparison.outputs) all.add(comparison.decisions.of(output.name));
  return all;
}

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
    for (const auto& [name, tensor] : left) comparison.outputs.push_back({.name = name});
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].second.sizes() != right[i].second.sizes() || i >= comparison.outputs.size()) {
      throw Error(ErrorCode::BadModel,
                  fmt::format("'{}' has shape {} in the first model and {} in the second for sample {}",
                              left[i].first, shape_text(left[i].second), shape_text(right[i].second), sample),
                  "compare two versions of one model");
    }
    ComparedOutput& output = comparison.outputs[i];
    output.agreement.add(left[i].second, right[i].second);
    output.power.add(left[i].second);
    comparison.whole.add(left[i].second, right[i].second);
    comparison.decisions.add(output.name, left[i].second, right[i].second);
  }
}

Comparison compare(ModelFile& first, ModelFile& second, const std::vector<Sample>& samples,
                   const std::vector<NamedDecisions>& named, const Progress& progress) {
  Comparison comparison{.decisions = DecisionCounts(first.module, named)};
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
  comparison.decisions.check_names(mapped(comparison.outputs, &ComparedOutput::name));
  return comparison;
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f} %", 100 * *share) : "-";
}

/// Of labels no difference says anything.
bool is_numbers(const JudgedDecisions& decisions) { return decisions.by != ScoresBy::Labels; }

json output_json(const std::string& name, const Agreement& agreement, double sqnr_db,
                 const JudgedDecisions& decisions) {
  const bool has_decisions = decisions.is_judged() && decisions.all.rows > 0;
  return {{"output", name},
          {"sqnr_db", is_numbers(decisions) ? detail::finite_or_null(sqnr_db) : nullptr},
          {"plain_sqnr_db", is_numbers(decisions) ? detail::finite_or_null(agreement.sqnr_db()) : nullptr},
          {"largest_error", detail::finite_or_null(agreement.largest_error())},
          {"cosine", detail::finite_or_null(agreement.cosine())},
          {"row_cosine", detail::finite_or_null(agreement.row_cosine())},
          {"top1_agreement", has_decisions ? json(decisions.all.share()) : json(nullptr)},
          {"decisions", decisions.to_json()},
          {"nearest_agreement", detail::finite_or_null(agreement.nearest())},
          {"equal_bits", agreement.equal_bits()},
          {"numbers", agreement.numbers()}};
}

/// "97.92 % (94 of 96)".
std::string decided_text(const JudgedDecisions& decisions) {
  if (!decisions.is_judged()) return "not judged";
  const Decisions& all = decisions.all;
  if (all.rows == 0) return "none";
  return fmt::format("{:.2f} % ({} of {})", 100 * all.share(), all.agreed, all.rows);
}

std::vector<std::string> output_row(const std::string& name, const Agreement& agreement, double sqnr_db,
                                    const JudgedDecisions& decisions) {
  const std::optional<double> row_cosine = agreement.row_cosine();
  const auto figure = [&](const std::string& text) { return is_numbers(decisions) ? text : "-"; };
  return {name,
          figure(fmt::format("{:.2f}", sqnr_db)),
          figure(fmt::format("{:.2f}", agreement.sqnr_db())),
          figure(fmt::format("{:.4g}", agreement.largest_error())),
          figure(fmt::format("{:.6f}", agreement.cosine())),
          row_cosine && is_numbers(decisions) ? fmt::format("{:.4f}", *row_cosine) : "-",
          decided_text(decisions),
          percent(agreement.nearest()),
          agreement.equal_bits() ? "yes" : "no"};
}

std::string text_of(const Comparison& comparison, const std::string& data, std::size_t samples) {
  std::vector<std::vector<std::string>> rows{{"", "SQNR dB", "plain dB", "largest error", "cosine", "of rows",
                                              "top-1 agrees", "nearest agrees", "equal bits"}};
  for (const ComparedOutput& output : comparison.outputs)
    rows.push_back(
        output_row(output.name, output.agreement, output.sqnr_db(), comparison.decisions.of(output.name)));
  if (comparison.outputs.size() > 1)
    rows.push_back(
        output_row("whole", comparison.whole, comparison.whole_db(), decisions_of_all(comparison)));
  return text_table(rows) +
         fmt::format("{} sample{} of '{}'; SQNR: of what varies, plain: of the whole power\n", samples,
                     samples == 1 ? "" : "s", data) +
         decisions_text(mapped(comparison.outputs, [&](const ComparedOutput& output) {
           return std::pair(output.name, comparison.decisions.of(output.name));
         }));
}

void run_compare(const CompareOptions& options, const Session& session) {
  const std::vector<NamedDecisions> named = named_decisions(options.decisions);
  Steps steps(session);
  ModelFile first = steps.run("load", [&](const Progress&) { return load_model(options.first); });
  ModelFile second = steps.run("load", [&](const Progress&) { return load_model(options.second); });
  tell_devices(first, session);
  tell_devices(second, session);
  const std::vector<Sample> samples = load_samples(options.data, first.module);
  const Comparison comparison = steps.run(
      "compare", [&](const Progress& progress) { return compare(first, second, samples, named, progress); });
  print_result(session, text_of(comparison, options.data, samples.size()),
               {{"first", options.first},
                {"second", options.second},
                {"samples", samples.size()},
                {"outputs", json_list(comparison.outputs,
                                      [&](const ComparedOutput& output) {
                                        return output_json(output.name, output.agreement, output.sqnr_db(),
                                                           comparison.decisions.of(output.name));
                                      })},
                {"whole", output_json("whole", comparison.whole, comparison.whole_db(),
                                      decisions_of_all(comparison))}});
}

void add_compare_options(const Command& command, CompareOptions& options) {
  add_options(
      command,
      {required(input({"FLOAT.pt", into(options.first), "The model to compare with"})),
       required(input({"QUANT.pt", into(options.second), "The model to judge"})),
       required(input({"--data", into(options.data), "Samples, as for 'tsq quantize --calib'", "DATA.pt"})),
       decisions_option(options.decisions)});
}

}  // namespace

void add_compare(CLI::App& app, Session& session) {
  add_command<CompareOptions>(app, session, kCompareHelp, add_compare_options, run_compare);
}

}  // namespace tsq::cli
