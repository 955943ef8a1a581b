#include "cli/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "backends/kernels/engine.h"
#include "pipeline/report_totals.h"

namespace tsq::cli {
namespace {

constexpr double kHardly = 0.1;  // of the work in int8
constexpr std::size_t kNamed = 3;

using detail::Change;
using detail::ChangeCause;
using detail::Finished;

std::string sqnr_db_text(double db) {
  return std::isinf(db) ? "no difference" : fmt::format("{:.1f} dB", db);
}

/// What tells most of data that the model has not seen.
const Trial& judged(const Finished& finished, const VerdictContext& context) {
  return context.unseen ? *context.unseen : finished.trial;
}

std::string sqnr_text(std::string_view label, const Trial& trial, std::string_view origin) {
  std::string text = fmt::format("  {:<9}  {} on {} sample{}{}", label, sqnr_db_text(*trial.sqnr_db),
                                 trial.samples, trial.samples == 1 ? "" : "s", origin);
  if (const auto expected = trial.expected_db())
    text += fmt::format("; 19 of 20 further ones have more than {}", sqnr_db_text(*expected));
  return text + "\n";
}

std::string trial_text(const Finished& finished, const VerdictContext& context) {
  const Trial& trial = finished.trial;
  if (trial.fault)
    return fmt::format("  trial      fails on sample {}: {}\n", trial.fault->sample, trial.fault->text);
  if (trial.samples == 0) return "  trial      loaded, not tried: --data DATA.pt runs it on samples\n";
  if (!trial.sqnr_db)
    return fmt::format("  trial      ran on {} samples; no floating-point output to compare\n",
                       trial.samples);
  std::string text =
      sqnr_text("SQNR", trial, context.samples_are_calibration ? " of the calibration data" : "");
  if (context.unseen && context.unseen->sqnr_db)
    text += sqnr_text("unseen", *context.unseen, ", by models that were not calibrated on them");
  return text;
}

std::string latency_text(const Finished& finished, const VerdictContext& context) {
  if (finished.latency) {
    const LatencyComparison& found = *finished.latency;
    return fmt::format(
        "  latency    float {:.3f} ms, int8 {:.3f} ms: {:.2f} times as fast ({:.2f} to {:.2f}), {} "
        "thread{}\n",
        1000 * found.float_seconds, 1000 * found.int8_seconds, found.ratio, found.ratio_low, found.ratio_high,
        found.threads, found.threads == 1 ? "" : "s");
  }
  if (!is_made_for_this_processor(context.backend))
    return fmt::format("  latency    not measured: '{}' is made for another kind of processor\n",
                       context.backend.name());
  return {};
}

std::string_view cause_text(ChangeCause cause) {
  switch (cause) {
    case ChangeCause::Slower:
      return "slower in int8 than in float";
    case ChangeCause::Larger:
      return "larger in int8 than in float";
    case ChangeCause::Fault:
      break;
  }
  return "cannot run in int8";
}

std::string_view cause_name(ChangeCause cause) {
  switch (cause) {
    case ChangeCause::Slower:
      return "slower";
    case ChangeCause::Larger:
      return "larger";
    case ChangeCause::Fault:
      break;
  }
  return "fault";
}

std::string change_text(const Change& change) {
  std::vector<std::string> names;
  for (const QuantizedLayer& layer : change.layers) {
    if (names.size() < kNamed) names.push_back(layer.to_text());
  }
  return fmt::format("  left float {} layer{}, {}: {}{}{}\n", change.layers.size(),
                     change.layers.size() == 1 ? "" : "s", cause_text(change.cause), fmt::join(names, ", "),
                     change.layers.size() > kNamed ? ", …" : "",
                     change.text.empty() ? "" : fmt::format(" ({})", change.text));
}

bool left_float_for_speed_or_size(const Finished& finished) {
  return std::ranges::any_of(finished.changes,
                             [](const Change& change) { return change.cause != ChangeCause::Fault; });
}

/// What it would take to be better, by recipe.
std::string leaving_remedy(const VerdictContext& context) {
  if (context.recipe == Recipe::Fx) return "--recipe best leaves layers float that do not pay";
  if (!context.timing_was_asked_for) return "without --no-check, layers that do not pay stay float";
  return "deploy the float model";
}

bool is_hardly_quantized(const Finished& finished) {
  const detail::Totals sums = detail::totals(finished.report);
  return sums.macs > 0 && sums.macs_share() < kHardly;
}

std::string accuracy_remedy(const VerdictContext& context) {
  return context.has_goal && context.unseen ? "give a higher --min-sqnr"
                                            : "--min-sqnr 20 leaves the most costly layers float";
}

std::vector<std::string> warnings_of(const Finished& finished, const VerdictContext& context,
                                     bool is_users_model) {
  std::vector<std::string> warnings;
  const Trial& trial = judged(finished, context);
  if (trial.fault) {
    warnings.push_back(fmt::format("written by --force though it fails: {}", trial.fault->text));
    return warnings;
  }
  if (trial.sqnr_db && *trial.sqnr_db < kPoorDb) {
    warnings.push_back(
        fmt::format("SQNR is {}, under 20 dB: {}", sqnr_db_text(*trial.sqnr_db), accuracy_remedy(context)));
  } else if (const auto expected = trial.expected_db(); expected && *expected < kPoorDb) {
    warnings.push_back(fmt::format("SQNR may be {} on other samples, under 20 dB: {}",
                                   sqnr_db_text(*expected), accuracy_remedy(context)));
  }
  if (finished.latency && finished.latency->is_slower()) {
    warnings.push_back(fmt::format("slower than float, {:.2f} of its speed: {}", finished.latency->ratio,
                                   leaving_remedy(context)));
  }
  const double growth = static_cast<double>(finished.trial.bytes) /
                        static_cast<double>(std::max<uint64_t>(1, context.model_bytes));
  if (finished.trial.bytes > 0 && growth > detail::kLarger && !is_users_model)
    warnings.push_back(
        fmt::format("larger than float, {:.0f} % of its file: {}", 100 * growth, leaving_remedy(context)));
  const bool pays = !left_float_for_speed_or_size(finished);
  if (is_users_model && pays) {
    warnings.emplace_back("nothing is quantized, the result is the float model: 'tsq explain' says why");
  } else if (!is_users_model && pays && is_hardly_quantized(finished)) {
    warnings.push_back(fmt::format("only {:.1f} % of the work is in int8: 'tsq explain' says what to change",
                                   100 * detail::totals(finished.report).macs_share()));
  }
  return warnings;
}

/// What is as it should be, and still worth knowing.
std::vector<std::string> notes_of(const Finished& finished, const VerdictContext& context,
                                  bool is_users_model) {
  constexpr std::size_t kTellRanges = 19;  // one more exceeds the ranges of n in one of n + 1 cases
  std::vector<std::string> notes;
  if (left_float_for_speed_or_size(finished)) {
    if (is_users_model) {
      notes.emplace_back(
          "int8 does not pay for this model on this machine: nothing is quantized, the result is the float "
          "model");
    } else if (is_hardly_quantized(finished)) {
      notes.push_back(
          fmt::format("{:.1f} % of the work is in int8: for the rest it does not pay on this machine",
                      100 * detail::totals(finished.report).macs_share()));
    }
  }
  if (context.has_goal && context.unseen && context.unseen->samples < kTellRanges)
    notes.push_back(
        fmt::format("one of {} further samples has values outside of the ranges of {}: more make the "
                    "goal surer",
                    context.unseen->samples + 1, context.unseen->samples));
  return notes;
}

nlohmann::json change_json(const Change& change) {
  nlohmann::json layers = nlohmann::json::array();
  for (const QuantizedLayer& layer : change.layers) layers.push_back(layer.to_json());
  return {{"cause", cause_name(change.cause)}, {"layers", std::move(layers)}, {"text", change.text}};
}

}  // namespace

std::string changes_text(const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes) text += change_text(change);
  return text;
}

nlohmann::json changes_json(const std::vector<Change>& changes) {
  nlohmann::json json = nlohmann::json::array();
  for (const Change& change : changes) json.push_back(change_json(change));
  return json;
}

std::string Verdict::remarks_text() const {
  std::string text;
  for (const std::string& note : notes_) text += fmt::format("  note       {}\n", note);
  for (const std::string& warning : warnings_) text += fmt::format("  warning    {}\n", warning);
  return text;
}

Verdict verdict_of(const Finished& finished, const VerdictContext& context) {
  const bool is_users_model = !finished.module;
  Verdict verdict;
  verdict.text_ = trial_text(finished, context) + latency_text(finished, context);
  verdict.text_ += changes_text(finished.changes);
  verdict.warnings_ = warnings_of(finished, context, is_users_model);
  verdict.notes_ = notes_of(finished, context, is_users_model);
  verdict.json_ = finished.trial.to_json();
  verdict.json_["unseen"] = context.unseen ? context.unseen->to_json() : nlohmann::json(nullptr);
  verdict.json_["latency"] = finished.latency ? finished.latency->to_json() : nlohmann::json(nullptr);
  verdict.json_["is_float_model"] = is_users_model;
  verdict.json_["left_float"] = changes_json(finished.changes);
  if (!finished.changes.empty()) verdict.json_["qconfig_mapping"] = finished.mapping.to_dict();
  verdict.json_["warnings"] = verdict.warnings_;
  verdict.json_["notes"] = verdict.notes_;
  return verdict;
}

}  // namespace tsq::cli
