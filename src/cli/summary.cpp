#include "cli/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "pipeline/report_totals.h"

namespace tsq::cli {
namespace {

constexpr std::size_t kNamesShown = 3;

struct Reason {
  std::string text;
  std::vector<std::string> operators;
};

/// The reasons for float operators, the most frequent first.
std::vector<Reason> reasons(const Report& report) {
  std::vector<Reason> groups;
  for (const Decision& decision : report.decisions) {
    if (decision.quantized || !decision.on_tensors) continue;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Reason& r) { return r.text == decision.reason; });
    if (group == groups.end())
      group = groups.insert(groups.end(), Reason{.text = decision.reason, .operators = {}});
    group->operators.push_back(decision.layer.empty() ? decision.op : decision.layer);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Reason& a, const Reason& b) { return a.operators.size() > b.operators.size(); });
  return groups;
}

std::size_t quantized_count(const Report& report) {
  return static_cast<std::size_t>(std::count_if(report.decisions.begin(), report.decisions.end(),
                                                [](const Decision& decision) { return decision.quantized; }));
}

/// Operators on tensors that stayed float; sizes and numbers have nothing to quantize.
std::size_t float_count(const Report& report) {
  return static_cast<std::size_t>(
      std::count_if(report.decisions.begin(), report.decisions.end(),
                    [](const Decision& decision) { return !decision.quantized && decision.on_tensors; }));
}

/// The share of the multiply-accumulates that runs in int8, where it was measured.
std::optional<double> int8_macs_share(const Report& report) {
  const detail::Totals sums = detail::totals(report);
  return sums.macs > 0 ? std::optional(sums.macs_share()) : std::nullopt;
}

std::string some_names(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kNamesShown);
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown));
  return fmt::format("{}{}", fmt::join(first, ", "), names.size() > shown ? ", …" : "");
}

}  // namespace

nlohmann::json operator_summary(const Report& report) {
  nlohmann::json groups = nlohmann::json::array();
  for (const Reason& reason : reasons(report)) {
    groups.push_back(
        {{"reason", reason.text}, {"count", reason.operators.size()}, {"operators", reason.operators}});
  }
  const std::size_t quantized = quantized_count(report);
  nlohmann::json summary = {
      {"quantized", quantized}, {"float", float_count(report)}, {"float_reasons", groups}};
  if (const auto share = int8_macs_share(report)) summary["int8_macs_share"] = *share;
  return summary;
}

std::string operator_summary_text(const Report& report) {
  const std::size_t quantized = quantized_count(report);
  std::string text = fmt::format("  operators  {} quantized, {} float\n", quantized, float_count(report));
  for (const Reason& reason : reasons(report)) {
    text += fmt::format("             {} x {} ({})\n", reason.operators.size(),
                        reason.text.empty() ? "no reason given" : reason.text, some_names(reason.operators));
  }
  if (const auto share = int8_macs_share(report))
    text += fmt::format("  compute    {:.1f} % of the multiply-accumulates in int8\n", 100 * *share);
  return text;
}

nlohmann::json warnings_json(const Report& report) {
  nlohmann::json warnings = nlohmann::json::array();
  for (const UnmatchedEntry& entry : report.unmatched_entries) warnings.push_back(entry.to_text());
  return warnings;
}

std::string warnings_text(const Report& report) {
  std::string text;
  for (const UnmatchedEntry& entry : report.unmatched_entries)
    text += fmt::format("  warning    {}\n", entry.to_text());
  return text;
}

std::string unobserved_text(const Report& report) {
  const std::vector<std::string>& layers = report.unobserved_layers;
  if (layers.empty()) return {};
  return fmt::format("  note       no data reached {} observers, their scale is 1: {}\n", layers.size(),
                     some_names(layers));
}

nlohmann::json seconds_json(const std::vector<std::pair<std::string, double>>& seconds) {
  nlohmann::json steps = nlohmann::json::array();
  for (const auto& [step, took] : seconds) steps.push_back({{"step", step}, {"seconds", took}});
  return steps;
}

std::string seconds_text(const std::vector<std::pair<std::string, double>>& seconds) {
  std::vector<std::string> parts;
  for (const auto& [step, took] : seconds) parts.push_back(fmt::format("{} {:.2f} s", step, took));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace tsq::cli
