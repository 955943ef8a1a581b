#include "cli/printing/verdict.h"

#include <fmt/format.h>
#include <tsq/backends.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/figures.h"
#include "base/json_number.h"
#include "base/mapped.h"
#include "base/text.h"
#include "cli/printing/decisions.h"
#include "cli/printing/json_list.h"
#include "cli/printing/texts.h"

namespace tsq::cli {
namespace {

constexpr std::size_t kNamed = 3;

/// Of what is hardly ever more than a few percent.
std::string share_text(double share) {
  if (share == 0) return "none";
  return 100 * share < 0.001 ? "less than 0.001 %" : fmt::format("{:.3f} %", 100 * share);
}

std::string sqnr_text(std::string_view label, const Trial& trial, std::string_view origin,
                      bool tells_of_further) {
  const std::string of_worst = of_worst_output_text(trial);
  std::string text = fmt::format("  {:<9}  {}{} on {} sample{}{}", label, sqnr_db_text(*trial.sqnr_db),
                                 of_worst, trial.samples, trial.samples == 1 ? "" : "s", origin);
  if (trial.outside)
    text += fmt::format("; of unseen samples {} of the values lay outside of the ranges",
                        share_text(*trial.outside));
  const auto expected = tells_of_further ? trial.expected_db() : std::nullopt;
  if (expected) text += fmt::format("; 19 of 20 further ones have more than {}", sqnr_db_text(*expected));
  return text + "\n";
}

/// Which model has not seen the samples.
std::string unseen_text(const Quantized& quantized) {
  return quantized.goal ? ", which their model was not calibrated on"
                        : " of these, by a model calibrated on the others";
}

std::string origin_text(const Quantized& quantized, const VerdictContext& context) {
  if (context.samples_are_calibration) return " of the calibration data";
  return quantized.held_back > 0 ? " held back of the calibration data" : " of --data";
}

std::string trial_text(const Quantized& quantized, const VerdictContext& context) {
  const Trial& trial = quantized.trial;
  if (trial.fault)
    return fmt::format("  trial      fails on sample {}: {}\n", trial.fault->sample, trial.fault->text);
  if (!trial.sqnr_db) return text_without_sqnr(trial);
  const bool has_unseen = quantized.unseen && quantized.unseen->sqnr_db;
  std::string text = sqnr_text("SQNR", trial, origin_text(quantized, context), !has_unseen);
  text += decisions_text(trial);
  if (has_unseen) text += sqnr_text("unseen", *quantized.unseen, unseen_text(quantized), true);
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

std::vector<std::string> texts_of(const std::vector<Remark>& remarks) {
  return mapped(remarks, [](const Remark& remark) { return to_string(remark); });
}

}  // namespace

std::string of_worst_output_text(const Trial& trial) {
  if (trial.outputs.size() < 2) return {};
  return fmt::format(" of {}, the worst of {} outputs,", trial.worst_output()->name, trial.outputs.size());
}

std::string text_without_sqnr(const Trial& trial) {
  if (trial.samples == 0) return "  trial      loaded, not tried: --data DATA.pt runs it on samples\n";
  return fmt::format("  trial      ran on {} sample{}; no floating-point output, so that there is no SQNR\n",
                     trial.samples, trial.samples == 1 ? "" : "s") +
         decisions_text(trial);
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
  const nlohmann::json found = quantized.to_json();
  Verdict verdict{.text = trial_text(quantized, context) + latency_text(quantized, context) +
                          left_float_text(quantized.left_float),
                  .warnings = texts_of(quantized.warnings),
                  .notes = texts_of(quantized.notes),
                  .json = found.at("trial")};
  for (const char* key : {"unseen", "latency", "optimized_latency", "is_float_model", "left_float", "targets",
                          "warnings", "notes"})
    verdict.json[key] = found.at(key);
  if (!quantized.left_float.empty()) verdict.json["qconfig_mapping"] = found.at("qconfig_mapping");
  if (quantized.unseen)
    verdict.json["expected_sqnr_db"] = detail::finite_or_null(quantized.unseen->expected_db());
  return verdict;
}

}  // namespace tsq::cli
