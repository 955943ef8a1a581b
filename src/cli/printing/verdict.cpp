#include "cli/printing/verdict.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/mapped.h"
#include "base/text.h"
#include "cli/printing/decisions.h"
#include "cli/printing/json_list.h"
#include "cli/printing/texts.h"

namespace tsq::cli {
namespace {

constexpr std::size_t kNamed = 3;

std::string sqnr_text(std::string_view label, const Trial& trial, std::string_view origin) {
  const std::string of_worst =
      trial.outputs.size() < 2
          ? std::string()
          : fmt::format(" of {}, the worst of {} outputs,", trial.worst_output()->name, trial.outputs.size());
  std::string text = fmt::format("  {:<9}  {}{} on {} sample{}{}", label, sqnr_db_text(*trial.sqnr_db),
                                 of_worst, trial.samples, trial.samples == 1 ? "" : "s", origin);
  if (const auto expected = trial.expected_db())
    text += fmt::format("; 19 of 20 further ones have more than {}", sqnr_db_text(*expected));
  return text + "\n";
}

std::string trial_text(const Quantized& quantized, const VerdictContext& context) {
  const Trial& trial = quantized.trial;
  if (trial.fault)
    return fmt::format("  trial      fails on sample {}: {}\n", trial.fault->sample, trial.fault->text);
  if (!trial.sqnr_db) return text_without_sqnr(trial);
  std::string text =
      sqnr_text("SQNR", trial, context.samples_are_calibration ? " of the calibration data" : "");
  text += decisions_text(trial);
  if (quantized.unseen && quantized.unseen->sqnr_db)
    text += sqnr_text("unseen", *quantized.unseen, ", which their model was not calibrated on");
  return text;
}

/// "4.70 times as fast (4.61 to 4.86)": no factor without an interval.
std::string factor_text(const LatencyComparison& found) {
  if (!found.has_interval())
    return fmt::format("{} round{}, too few for a factor", found.rounds, found.rounds == 1 ? "" : "s");
  return fmt::format("{:.2f} times as fast ({:.2f} to {:.2f})", found.ratio, found.ratio_low,
                     found.ratio_high);
}

std::string optimized_text(const std::optional<LatencyComparison>& found) {
  if (!found) return {};
  return fmt::format("             float after optimize_for_inference {:.3f} ms, int8 {:.3f} ms: {}\n",
                     1000 * found->float_seconds, 1000 * found->int8_seconds, factor_text(*found));
}

std::string latency_text(const Quantized& quantized, const VerdictContext& context) {
  if (quantized.latency) {
    const LatencyComparison& found = *quantized.latency;
    return fmt::format("  latency    float {:.3f} ms, int8 {:.3f} ms: {}, {} thread{}\n{}",
                       1000 * found.float_seconds, 1000 * found.int8_seconds, factor_text(found),
                       found.threads, found.threads == 1 ? "" : "s",
                       optimized_text(quantized.optimized_latency));
  }
  if (!is_made_for_this_processor(context.backend))
    return fmt::format("  latency    not measured: '{}' is made for another kind of processor\n",
                       context.backend.name());
  return {};
}

std::string_view cause_text(LeftFloatCause cause) {
  switch (cause) {
    case LeftFloatCause::Slower:
      return "slower in int8 than in float";
    case LeftFloatCause::Larger:
      return "larger in int8 than in float";
    case LeftFloatCause::NothingGained:
      return "neither faster nor smaller in int8";
    case LeftFloatCause::Fault:
      break;
  }
  return "cannot run in int8";
}

std::string text_of(const LeftFloat& left) {
  const std::vector<std::string> names = mapped(left.layers, &QuantizedLayer::to_text);
  return fmt::format("  left float {} layer{}, {}: {}{}\n", names.size(), names.size() == 1 ? "" : "s",
                     cause_text(left.cause), first_of(names, kNamed),
                     left.text.empty() ? "" : fmt::format(" ({})", left.text));
}

/// What it would take to be better, by recipe.
std::string leaving_remedy(const VerdictContext& context) {
  if (context.recipe == Recipe::Fx) return "--recipe best leaves layers float that do not pay";
  if (!context.timing_was_asked_for) return "without --no-check, layers that do not pay stay float";
  return "deploy the float model";
}

std::string accuracy_remedy(const Quantized& quantized) {
  return quantized.goal && quantized.unseen ? "give a higher --min-sqnr"
                                            : "--min-sqnr 20 leaves the most costly layers float";
}

std::string_view decisions_remedy() { return "--min-agreement 0.99 leaves the layers float that decide"; }

/// A sentence with its remedy.
std::string text_of(const Remark& remark, const Quantized& quantized, const VerdictContext& context) {
  switch (remark.kind) {
    case RemarkKind::Fails:
      return fmt::format("written by --force though it fails: {}", remark.text);
    case RemarkKind::PoorSqnr:
      return fmt::format("SQNR{} is {}, under 20 dB: {}",
                         remark.text.empty() ? "" : fmt::format(" of {}", remark.text),
                         sqnr_db_text(remark.figure), accuracy_remedy(quantized));
    case RemarkKind::MayBePoorSqnr:
      return fmt::format("SQNR may be {} on other samples, under 20 dB: {}", sqnr_db_text(remark.figure),
                         accuracy_remedy(quantized));
    case RemarkKind::OtherDecisions:
      return fmt::format("{:.1f} % of the decisions are others than in float or ties ({}): {}",
                         100 * remark.figure, remark.text, decisions_remedy());
    case RemarkKind::TiedDecisions:
      return fmt::format("in {:.0f} % of the rows of {} in which float decides clearly int8 has a tie: {}",
                         100 * remark.figure, remark.text, decisions_remedy());
    case RemarkKind::Slower:
      return fmt::format("slower than float, {:.2f} of its speed: {}", remark.figure,
                         leaving_remedy(context));
    case RemarkKind::Larger:
      return fmt::format("larger than float, {:.0f} % of its file: {}", 100 * remark.figure,
                         leaving_remedy(context));
    case RemarkKind::NothingQuantized:
      return "nothing is quantized, the result computes in float: 'tsq explain' says why";
    case RemarkKind::HardlyQuantized:
      return fmt::format("only {:.1f} % of the work is quantized: 'tsq explain' says what to change",
                         100 * remark.figure);
    case RemarkKind::LittleGained:
      return fmt::format("little is gained, {:.0f} % of the float file and {}: {}", 100 * remark.figure,
                         quantized.latency && quantized.latency->has_interval()
                             ? fmt::format("{:.2f} of its speed", quantized.latency->ratio)
                             : "a speed that was not measured",
                         leaving_remedy(context));
    case RemarkKind::FloatPays:
      return "int8 does not pay for this model on this machine: nothing is quantized, the result computes "
             "in float";
    case RemarkKind::MostlyFloatPays:
      return fmt::format("{:.1f} % of the work is quantized: for the rest it does not pay on this machine",
                         100 * remark.figure);
    case RemarkKind::SearchEnded:
      return "the search for layers that do not pay took as long as calibration and conversion, and ended "
             "before it had looked at each: --effort high goes on";
    case RemarkKind::FloatGrew:
      return fmt::format(
          "the file has {:.0f} % of the float file's bytes: {} of it are the record that tsq writes, "
          "whatever "
          "the model's size",
          100 * remark.figure, readable_size(remark.text.size()));
    case RemarkKind::FloatWithoutVnni:
      return fmt::format(
          "{:.0f} layer{} would compute in float on a processor without VNNI, whose int8 sums could "
          "saturate: "
          "--target-cpu without-vnni chooses weights for it",
          remark.figure, remark.figure == 1 ? "" : "s");
    case RemarkKind::FewSamples:
      break;
  }
  return fmt::format(
      "one of {:.0f} further samples has values outside of the ranges of {:.0f}: more would make the goal "
      "more certain",
      remark.figure + 1, remark.figure);
}

std::vector<std::string> texts_of(const std::vector<Remark>& remarks, const Quantized& quantized,
                                  const VerdictContext& context) {
  std::vector<std::string> texts;
  for (const Remark& remark : remarks) texts.push_back(text_of(remark, quantized, context));
  return texts;
}

}  // namespace

std::string sqnr_db_text(double db) {
  return std::isinf(db) && db > 0 ? "no difference" : fmt::format("{:.1f} dB", db);
}

std::string text_without_sqnr(const Trial& trial) {
  if (trial.samples == 0) return "  trial      loaded, not tried: --data DATA.pt runs it on samples\n";
  return fmt::format("  trial      ran on {} samples; no floating-point output to compare\n", trial.samples);
}

std::string left_float_text(const std::vector<LeftFloat>& left_float) {
  std::string text;
  for (const LeftFloat& left : left_float) text += text_of(left);
  return text;
}

nlohmann::json left_float_json(const std::vector<LeftFloat>& left_float) {
  return json_list(left_float, &LeftFloat::to_json);
}

std::string Verdict::remarks_text() const {
  std::string lines;
  for (const std::string& note : notes) lines += fmt::format("  note       {}\n", note);
  for (const std::string& warning : warnings) lines += fmt::format("  warning    {}\n", warning);
  return lines;
}

Verdict verdict_of(const Quantized& quantized, const VerdictContext& context) {
  Verdict verdict{.text = trial_text(quantized, context) + latency_text(quantized, context) +
                          left_float_text(quantized.left_float),
                  .warnings = texts_of(quantized.warnings, quantized, context),
                  .notes = texts_of(quantized.notes, quantized, context),
                  .json = quantized.trial.to_json()};
  verdict.json.update(
      {{"unseen", quantized.unseen ? quantized.unseen->to_json() : nlohmann::json(nullptr)},
       {"latency", quantized.latency ? quantized.latency->to_json() : nlohmann::json(nullptr)},
       {"optimized_latency",
        quantized.optimized_latency ? quantized.optimized_latency->to_json() : nlohmann::json(nullptr)},
       {"is_float_model", quantized.is_float_model},
       {"left_float", left_float_json(quantized.left_float)},
       {"warnings", verdict.warnings},
       {"notes", verdict.notes}});
  if (!quantized.left_float.empty()) verdict.json["qconfig_mapping"] = quantized.mapping.to_dict();
  return verdict;
}

}  // namespace tsq::cli
