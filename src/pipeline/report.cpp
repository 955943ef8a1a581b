// The decision report as JSON and as text.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/report.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace tsq {
namespace {

constexpr std::size_t kNamesShown = 4;

struct Totals {
  std::size_t operators{0};
  std::size_t quantized{0};
  std::size_t in_kernels{0};
  std::size_t without_tensors{0};
  bool has_macs{false};
  int64_t macs{0};
  int64_t int8_macs{0};
  bool has_seconds{false};
  double seconds{0};
  double int8_seconds{0};
};

Totals totals(const Report& report) {
  Totals sums;
  for (const Decision& decision : report.decisions) {
    if (!decision.on_tensors) {
      ++sums.without_tensors;
      continue;
    }
    ++sums.operators;
    if (decision.quantized) ++sums.quantized;
    if (decision.quantized && !decision.kernel.empty()) ++sums.in_kernels;
    if (decision.macs) {
      sums.has_macs = true;
      sums.macs += *decision.macs;
      if (decision.quantized) sums.int8_macs += *decision.macs;
    }
    if (decision.seconds) {
      sums.has_seconds = true;
      sums.seconds += *decision.seconds;
      if (decision.quantized) sums.int8_seconds += *decision.seconds;
    }
  }
  return sums;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

nlohmann::json summary_json(const Totals& sums) {
  nlohmann::json summary = {{"operators", sums.operators},
                            {"quantized", sums.quantized},
                            {"in_kernels", sums.in_kernels},
                            {"float", sums.operators - sums.quantized},
                            {"without_tensors", sums.without_tensors}};
  if (sums.has_macs) {
    summary["macs"] = sums.macs;
    summary["int8_macs"] = sums.int8_macs;
    summary["int8_macs_share"] = share(static_cast<double>(sums.int8_macs), static_cast<double>(sums.macs));
  }
  if (sums.has_seconds) {
    summary["float_seconds"] = sums.seconds;
    summary["float_seconds_of_int8"] = sums.int8_seconds;
    summary["int8_seconds_share"] = share(sums.int8_seconds, sums.seconds);
  }
  return summary;
}

nlohmann::json entry_json(const Decision& decision) {
  nlohmann::json entry = {{"node", decision.node},
                          {"layer", decision.layer},
                          {"op", decision.op},
                          {"quantized", decision.quantized},
                          {"on_tensors", decision.on_tensors}};
  const auto add = [&entry](const char* key, const auto& value) {
    if (!value.empty()) entry[key] = value;
  };
  add("parts", decision.parts);
  add("standalone", decision.standalone);
  add("pattern", decision.pattern);
  add("qconfig_source", decision.qconfig_source);
  add("qconfig", decision.qconfig);
  nlohmann::json tried = nlohmann::json::array();
  for (std::size_t i = 0; i < decision.dtype_configs.size(); ++i) {
    tried.push_back({{"dtypes", decision.dtype_configs[i]}, {"taken", i >= decision.refusals.size()}});
    if (i < decision.refusals.size()) tried.back()["refusal"] = decision.refusals[i];
  }
  add("dtype_configs", tried);
  add("refusals", decision.refusals);
  add("reason", decision.reason);
  add("remedy", decision.remedy);
  add("notes", decision.notes);
  add("equalization", decision.equalization);
  add("kernel", decision.kernel);
  if (decision.macs) entry["macs"] = *decision.macs;
  if (decision.seconds) entry["seconds"] = *decision.seconds;
  return entry;
}

std::string summary_text(const Totals& sums) {
  std::string text = fmt::format("{} of {} operators quantized", sums.quantized, sums.operators);
  if (sums.in_kernels > 0) text += fmt::format(", {} in int8 kernels", sums.in_kernels);
  if (sums.without_tensors > 0)
    text += fmt::format("; {} more compute sizes and numbers only", sums.without_tensors);
  text += '\n';
  if (sums.has_macs) {
    text += fmt::format("{:.1f} % of {:.2f} million multiply-accumulates in int8\n",
                        100 * share(static_cast<double>(sums.int8_macs), static_cast<double>(sums.macs)),
                        static_cast<double>(sums.macs) / 1e6);
  }
  if (sums.has_seconds) {
    text +=
        fmt::format("{:.1f} % of {:.2f} ms, the float operators' time, is of operators that become int8\n",
                    100 * share(sums.int8_seconds, sums.seconds), 1000 * sums.seconds);
  }
  return text;
}

/// A module's operators stand under its parent's path, functions under the module that calls them.
std::pair<std::string, std::string> group_and_name(const Decision& decision) {
  const bool is_module =
      decision.op.starts_with("torch.nn.") && !decision.op.starts_with("torch.nn.functional.");
  if (!is_module && decision.parts.empty()) return {decision.layer, decision.node};
  const auto dot = decision.layer.rfind('.');
  if (dot == std::string::npos) return {"", decision.layer.empty() ? decision.node : decision.layer};
  return {decision.layer.substr(0, dot), decision.layer.substr(dot + 1)};
}

std::string op_text(const Decision& decision) {
  return decision.parts.empty() ? decision.op : fmt::format("{}", fmt::join(decision.parts, " + "));
}

using Row = std::array<std::string, 6>;

Row row_of(const Decision& decision, const Totals& sums) {
  Row row{"  " + group_and_name(decision).second,
          op_text(decision),
          decision.quantized ? "int8" : "float",
          decision.quantized ? decision.kernel : "",
          "",
          ""};
  if (!decision.on_tensors) row[2] = "-";
  if (sums.has_macs && decision.macs.value_or(0) > 0) {
    row[4] = fmt::format("{:.1f} %",
                         100 * share(static_cast<double>(*decision.macs), static_cast<double>(sums.macs)));
  }
  if (decision.seconds) row[5] = fmt::format("{:.3f}", 1000 * *decision.seconds);
  return row;
}

std::string table_text(const Report& report, const Totals& sums) {
  std::vector<std::pair<std::string, Row>> rows{
      {"",
       {"operator", "float operator", "is", "kernel", sums.has_macs ? "MACs" : "",
        sums.has_seconds ? "ms" : ""}}};
  for (const Decision& decision : report.decisions)
    rows.emplace_back(group_and_name(decision).first, row_of(decision, sums));
  std::array<std::size_t, 6> widths{};
  for (const auto& [group, row] : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  std::string open;
  for (const auto& [group, row] : rows) {
    if (group != open) text += fmt::format("{}\n", group.empty() ? "(the model itself)" : group);
    open = group;
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;
      line += i < 4 ? fmt::format("{:<{}}  ", row[i], widths[i]) : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string place(const Decision& decision) {
  if (decision.layer.empty()) return decision.node;
  const auto [group, name] = group_and_name(decision);
  return group == decision.layer ? fmt::format("{} in {}", name, group) : decision.layer;
}

/// Operators that stayed float for one reason with one remedy.
struct Kept {
  const Decision* first;
  std::vector<std::string> places;
};

std::vector<Kept> kept_float(const Report& report) {
  std::vector<Kept> groups;
  for (const Decision& decision : report.decisions) {
    if (decision.quantized || !decision.on_tensors) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Kept& each) {
      return op_text(*each.first) == op_text(decision) && each.first->reason == decision.reason &&
             each.first->remedy == decision.remedy && each.first->refusals == decision.refusals;
    });
    if (group == groups.end()) group = groups.insert(group, Kept{&decision, {}});
    group->places.push_back(place(decision));
  }
  return groups;
}

std::string some_places(const std::vector<std::string>& places) {
  const auto shown = std::min(places.size(), kNamesShown);
  const std::vector<std::string> first(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(shown));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     places.size() > shown ? fmt::format(" and {} more", places.size() - shown) : "");
}

std::string kept_text(const Kept& kept) {
  const Decision& decision = *kept.first;
  std::string text = fmt::format("  {}: {}\n", op_text(decision), some_places(kept.places));
  const auto add = [&text](std::string_view what, const std::string& value) {
    if (!value.empty()) text += fmt::format("    {:<8} {}\n", what, value);
  };
  add("why", decision.reason);
  add("change", decision.remedy);
  add("pattern", decision.pattern);
  if (!decision.qconfig.empty())
    add("qconfig", fmt::format("{} ({})", decision.qconfig, decision.qconfig_source));
  for (std::size_t i = 0; i < decision.dtype_configs.size(); ++i) {
    add("tried", fmt::format("{} -> {}", decision.dtype_configs[i],
                             i < decision.refusals.size() ? decision.refusals[i] : "taken"));
  }
  return text;
}

std::string notes_text(const Report& report) {
  std::string text;
  for (const Decision& decision : report.decisions) {
    for (const std::string& note : decision.notes) text += fmt::format("  {}: {}\n", place(decision), note);
    if (!decision.equalization.empty())
      text += fmt::format("  {}: {}\n", place(decision), decision.equalization);
  }
  return text;
}

}  // namespace

nlohmann::json Report::to_json() const {
  nlohmann::json entries = nlohmann::json::array();
  for (const Decision& decision : decisions) entries.push_back(entry_json(decision));
  return {{"summary", summary_json(totals(*this))},
          {"operators", std::move(entries)},
          {"unobserved_layers", unobserved_layers}};
}

std::string Report::to_text() const {
  const Totals sums = totals(*this);
  std::string text = fmt::format("{}\n{}", summary_text(sums), table_text(*this, sums));
  const std::vector<Kept> kept = kept_float(*this);
  if (!kept.empty()) text += "\nstayed float\n";
  for (const Kept& each : kept) text += kept_text(each);
  if (const std::string notes = notes_text(*this); !notes.empty()) text += "\nnotes\n" + notes;
  return text;
}

}  // namespace tsq
