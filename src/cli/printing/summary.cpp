#include "cli/printing/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/range_when_run.h"
#include "base/text.h"
#include "cli/printing/json_list.h"

namespace tsq::cli {
namespace {

constexpr std::size_t kNamesShown = 3;
/// Lines for the operators: one with their numbers, one for the share of int8, one for what is left out.
constexpr std::size_t kReasonsShown = 17;
constexpr std::size_t kWarningsShown = 10;
constexpr std::size_t kSaturationsShown = 10;

struct Reason {
  std::string text;
  std::vector<std::string> operators;  ///< the layer of each, its kind where it has none
  std::vector<std::string> kinds;      ///< the kind of each with its layer
};

/// Names and sentences that differ in their numbers alone are alike: "layer1.0.conv2" → "layer*.*.conv*".
std::string pattern_of(std::string_view name) {
  std::string pattern;
  for (const char c : name) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!is_digit) pattern += c;
    if (is_digit && !pattern.ends_with('*')) pattern += '*';
  }
  return pattern;
}

/// A reason without the names of values in it: "it reads the float result of aten::view ('x.1')".
std::string without_names(std::string reason) {
  for (auto begin = reason.find(" ('"); begin != std::string::npos; begin = reason.find(" ('", begin)) {
    const auto end = reason.find("')", begin);
    if (end == std::string::npos) break;
    reason.erase(begin, end + 2 - begin);
  }
  return reason;
}

/// Operators on tensors that stayed float; sizes and numbers have nothing to quantize.
bool is_float(const Decision& decision) { return !decision.quantized && decision.on_tensors; }

void add(Reason& group, const Decision& decision) {
  group.operators.push_back(decision.layer.empty() ? decision.op : decision.layer);
  group.kinds.push_back(decision.layer.empty() ? decision.op
                                               : fmt::format("{} '{}'", decision.op, decision.layer));
}

/// The reasons for float operators, the most frequent first: the exact ones, or (`alike`) those that are
/// alike as one.
std::vector<Reason> reasons(const Report& report, bool alike) {
  std::vector<Reason> groups;
  std::map<std::string, std::size_t> index;
  for (const Decision& decision : report.decisions) {
    if (!is_float(decision)) continue;
    const std::string key = alike ? pattern_of(without_names(decision.reason)) : decision.reason;
    const auto [place, is_new] = index.emplace(key, groups.size());
    if (is_new) groups.push_back({.text = decision.reason, .operators = {}, .kinds = {}});
    Reason& group = groups[place->second];
    if (alike && group.text != decision.reason) group.text = without_names(group.text);
    add(group, decision);
  }
  std::ranges::stable_sort(groups, std::ranges::greater(),
                           [](const Reason& reason) { return reason.operators.size(); });
  return groups;
}

/// What is said of quantized operators whose range is found when they run, and of how many.
std::vector<Reason> ranges_when_run(const Report& report) {
  std::vector<Reason> groups;
  for (const Decision& decision : report.decisions) {
    for (const std::string& note : decision.notes) {
      if (!decision.quantized || !note.starts_with(kRangeWhenRun)) continue;
      auto group = std::ranges::find(groups, note, &Reason::text);
      if (group == groups.end()) group = groups.insert(group, {.text = note, .operators = {}, .kinds = {}});
      add(*group, decision);
    }
  }
  return groups;
}

std::size_t quantized_count(const Report& report) {
  return static_cast<std::size_t>(std::ranges::count_if(report.decisions, &Decision::quantized));
}

std::size_t float_count(const Report& report) {
  return static_cast<std::size_t>(std::ranges::count_if(report.decisions, is_float));
}

/// The first of the names, those that differ in their numbers alone as one with their count.
std::string some_names(const std::vector<std::string>& names) {
  if (names.size() <= kNamesShown && std::set<std::string>(names.begin(), names.end()).size() == names.size())
    return fmt::format("{}", fmt::join(names, ", "));
  std::vector<std::pair<std::string, std::vector<std::string>>> alike;
  for (const std::string& name : names) {
    const std::string pattern = pattern_of(name);
    auto found = std::ranges::find(alike, pattern, [](const auto& entry) { return entry.first; });
    if (found == alike.end()) found = alike.emplace(found, pattern, std::vector<std::string>());
    found->second.push_back(name);
  }
  std::ranges::stable_sort(alike, std::ranges::greater(),
                           [](const auto& entry) { return entry.second.size(); });
  std::vector<std::string> shown;
  for (const auto& [pattern, members] : alike) {
    const bool is_one = std::ranges::count(members, members.front()) == std::ssize(members);
    shown.push_back(members.size() == 1
                        ? members.front()
                        : fmt::format("{} {} x", is_one ? members.front() : pattern, members.size()));
  }
  return first_of(shown, kNamesShown);
}

/// Which layers' 16-bit sums can overflow, each with its numbers, and how many cannot.
std::string saturation_text(const Report& report) {
  std::vector<std::string> lines;
  std::size_t safe = 0;
  for (const Decision& decision : report.decisions) {
    if (decision.saturation.empty()) continue;
    if (decision.may_saturate) {
      lines.push_back(fmt::format("'{}': {}", decision.layer.empty() ? decision.node : decision.layer,
                                  decision.saturation));
    } else {
      ++safe;
    }
  }
  const std::size_t more = lines.size() - std::min(lines.size(), kSaturationsShown);
  lines.resize(lines.size() - more);
  if (more > 0) lines.push_back(fmt::format("… and {} more; --report lists all", more));
  if (safe > 0)
    lines.push_back(lines.empty()
                        ? "no layer's 16-bit sums can overflow"
                        : fmt::format("those of {} other layer{} cannot", safe, safe == 1 ? "" : "s"));
  std::string text;
  for (const std::string& line : lines)
    text += fmt::format("  {:<10} {}\n", text.empty() ? "saturation" : "", line);
  return text;
}

}  // namespace

nlohmann::json operator_summary(const Report& report) {
  const auto listed = [](const std::vector<Reason>& groups) {
    return json_list(groups, [](const Reason& reason) -> nlohmann::json {
      return {{"reason", reason.text}, {"count", reason.operators.size()}, {"operators", reason.operators}};
    });
  };
  nlohmann::json summary = {{"quantized", quantized_count(report)},
                            {"float", float_count(report)},
                            {"float_reasons", listed(reasons(report, /*alike=*/false))}};
  if (const auto when_run = ranges_when_run(report); !when_run.empty())
    summary["ranges_when_run"] = listed(when_run);
  if (const Totals sums = totals(report); sums.macs > 0) summary["int8_macs_share"] = sums.macs_share();
  return summary;
}

std::string operator_summary_text(const Report& report, std::string_view all) {
  const auto in_methods = std::ranges::count_if(report.decisions, [](const Decision& decision) {
    return !decision.method.empty() && decision.on_tensors;
  });
  std::string text =
      fmt::format("  operators  {} quantized, {} float{}\n", quantized_count(report), float_count(report),
                  in_methods > 0 ? fmt::format(", {} of them in methods beside forward", in_methods) : "");
  const std::vector<Reason> groups = reasons(report, /*alike=*/true);
  for (std::size_t i = 0; i < std::min(groups.size(), kReasonsShown); ++i) {
    const Reason& reason = groups[i];
    text += fmt::format("             {} x {} ({})\n", reason.operators.size(),
                        reason.text.empty() ? "no reason given" : reason.text, some_names(reason.kinds));
  }
  if (groups.size() > kReasonsShown) {
    std::size_t more = 0;
    for (std::size_t i = kReasonsShown; i < groups.size(); ++i) more += groups[i].operators.size();
    text += fmt::format("             … and {} more; {} lists all\n", more, all);
  }
  for (const Reason& when_run : ranges_when_run(report)) {
    text += fmt::format("             of {} quantized {} ({})\n", when_run.operators.size(), when_run.text,
                        some_names(when_run.kinds));
  }
  if (const Totals sums = totals(report); sums.macs > 0)
    text += fmt::format("  compute    {}\n", sums.macs_text("the multiply-accumulates"));
  return text + saturation_text(report);
}

nlohmann::json warnings_json(const Report& report) {
  return json_list(report.unmatched_entries, &UnmatchedEntry::to_text);
}

std::string warnings_text(const Report& report) {
  std::string text;
  const std::vector<UnmatchedEntry>& entries = report.unmatched_entries;
  for (std::size_t i = 0; i < std::min(entries.size(), kWarningsShown); ++i)
    text += fmt::format("  warning    {}\n", entries[i].to_text());
  if (entries.size() > kWarningsShown) {
    text += fmt::format("  warning    … and {} more entries of the mapping; --json lists all\n",
                        entries.size() - kWarningsShown);
  }
  return text;
}

std::string unobserved_text(const Report& report) {
  const std::vector<std::string>& layers = report.unobserved_layers;
  if (layers.empty()) return {};
  return fmt::format("  note       no data reached {} observers, their scale is 1: {}\n", layers.size(),
                     some_names(layers));
}

nlohmann::json seconds_json(const std::vector<std::pair<std::string, double>>& seconds) {
  return json_list(seconds, [](const auto& step) -> nlohmann::json {
    return {{"step", step.first}, {"seconds", step.second}};
  });
}

std::string seconds_text(const std::vector<std::pair<std::string, double>>& seconds) {
  std::vector<std::string> parts;
  for (const auto& [step, took] : seconds) parts.push_back(fmt::format("{} {:.2f} s", step, took));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace tsq::cli
