// The decision report for people.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/report.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text_table.h"

namespace tsq {
namespace {

constexpr std::size_t kNamesShown = 4;

std::string summary_text(const Totals& sums) {
  std::string text = fmt::format("{} of {} operators quantized", sums.quantized, sums.operators);
  if (sums.in_kernels > 0) text += fmt::format(", {} in int8 kernels", sums.in_kernels);
  if (sums.without_tensors > 0)
    text += fmt::format("; {} more compute sizes and numbers only", sums.without_tensors);
  text += '\n';
  if (sums.has_macs && sums.macs > 0) {
    text += sums.macs_text(
                fmt::format("{:.2f} million multiply-accumulates", static_cast<double>(sums.macs) / 1e6)) +
            "\n";
  }
  if (sums.has_seconds) {
    text +=
        fmt::format("{:.1f} % of {:.2f} ms, the float operators' time, is of operators that become int8\n",
                    100 * sums.seconds_share(), 1000 * sums.seconds);
  }
  return text;
}

/// "program_1: 23 operators, torch.nn.Conv2d 'features.0' to torch.nn.Linear 'head'; ends at aten::cumsum".
std::string program_text(const FusedProgram& program) {
  std::string text = fmt::format("{}: {} operator{}, {} to {}", program.name, program.operators,
                                 program.operators == 1 ? "" : "s", program.first, program.last);
  if (!program.ended_by.empty()) {
    const std::span shown(program.ended_by.data(), std::min(program.ended_by.size(), kNamesShown));
    text += fmt::format("; ends at {}{}", fmt::join(shown, ", "),
                        shown.size() < program.ended_by.size() ? ", …" : "");
  }
  return text + "\n";
}

/// "note: model.py, which the trace names, tells how its operators are written".
std::string python_files_text(const std::vector<std::string>& files) {
  const std::span shown(files.data(), std::min(files.size(), kNamesShown));
  const bool is_one = files.size() == 1;
  return fmt::format("note: {}{}, which the trace names, tell{} how its operators are written\n",
                     fmt::join(shown, ", "), shown.size() < files.size() ? ", …" : "", is_one ? "s" : "");
}

/// A module's operators stand under its parent's path, functions under the module that calls them.
std::pair<std::string, std::string> group_and_name(const Decision& decision) {
  const bool is_function = decision.op.find("::") != std::string::npos || decision.op.ends_with(".forward") ||
                           decision.op.starts_with("torch.nn.functional.");
  if (is_function && decision.parts.empty()) return {decision.layer, decision.node};
  const auto dot = decision.layer.rfind('.');
  if (dot == std::string::npos) return {"", decision.layer.empty() ? decision.node : decision.layer};
  return {decision.layer.substr(0, dot), decision.layer.substr(dot + 1)};
}

std::string op_text(const Decision& decision) {
  return decision.parts.empty() ? decision.op : fmt::format("{}", fmt::join(decision.parts, " + "));
}

std::string is_text(const Decision& decision) {
  if (!decision.on_tensors) return "-";
  if (!decision.quantized) return "float";
  return decision.weights.empty() ? "int8" : decision.weights;
}

using Row = std::vector<std::string>;

Row row_of(const Decision& decision, const Totals& sums) {
  const std::string method = decision.method.empty() ? "" : fmt::format(" (method {})", decision.method);
  Row row{"  " + group_and_name(decision).second + method,
          op_text(decision),
          is_text(decision),
          decision.quantized ? decision.kernel : "",
          "",
          ""};
  if (sums.has_macs && decision.macs.value_or(0) > 0) {
    row[4] =
        fmt::format("{:.1f} %", 100 * static_cast<double>(*decision.macs) / static_cast<double>(sums.macs));
  }
  if (decision.seconds) row[5] = fmt::format("{:.3f}", 1000 * *decision.seconds);
  return row;
}

std::string table_text(const Report& report, const Totals& sums) {
  std::vector<Row> rows{{"operator", "float operator", "is", "kernel", "MACs", "ms"}};
  if (!sums.has_macs) rows.front()[4].clear();
  if (!sums.has_seconds) rows.front()[5].clear();
  for (const Decision& decision : report.decisions) rows.push_back(row_of(decision, sums));
  std::istringstream lines(text_table(rows, {0, 1, 2, 3}));
  std::string line;
  std::getline(lines, line);
  std::string text = line + '\n';
  std::string open;
  for (const Decision& decision : report.decisions) {
    const std::string group = group_and_name(decision).first;
    if (group != open) text += fmt::format("{}\n", group.empty() ? "(the model itself)" : group);
    open = group;
    std::getline(lines, line);
    text += line + '\n';
  }
  return text;
}

std::string place(const Decision& decision) {
  if (decision.layer.empty()) return decision.node;
  const auto [group, name] = group_and_name(decision);
  return group == decision.layer ? fmt::format("{} in {}", name, group) : decision.layer;
}

/// Operators of which the same is to be said.
struct Group {
  const Decision* first;
  std::vector<std::string> places;
  std::optional<OperatorPrice> price{};  ///< of all together; none where that of one is not known
};

bool is_told_alike(const Decision& a, const Decision& b) {
  const auto facts = [](const Decision& decision) {
    return std::tie(decision.op, decision.parts, decision.pattern, decision.qconfig, decision.qconfig_source,
                    decision.dtype_configs, decision.refusals, decision.reason, decision.remedy,
                    decision.kernel);
  };
  return facts(a) == facts(b);
}

std::optional<OperatorPrice> sum_of(const std::optional<OperatorPrice>& a,
                                    const std::optional<OperatorPrice>& b) {
  if (!a || !b) return std::nullopt;
  return OperatorPrice{.in_float = a->in_float + b->in_float, .in_int8 = a->in_int8 + b->in_int8};
}

std::vector<Group> groups_of(const Report& report, bool quantized) {
  std::vector<Group> groups;
  for (const Decision& decision : report.decisions) {
    if (decision.quantized != quantized || !decision.on_tensors) continue;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& each) { return is_told_alike(*each.first, decision); });
    if (group == groups.end()) {
      groups.push_back({.first = &decision, .places = {place(decision)}, .price = decision.price});
      continue;
    }
    group->places.push_back(place(decision));
    group->price = sum_of(group->price, decision.price);
  }
  return groups;
}

std::string some_places(const std::vector<std::string>& places) {
  const auto shown = std::min(places.size(), kNamesShown);
  return fmt::format("{}{}", fmt::join(std::span(places).first(shown), ", "),
                     places.size() > shown ? fmt::format(" and {} more", places.size() - shown) : "");
}

std::string group_text(const Group& group) {
  const Decision& decision = *group.first;
  std::vector<std::pair<std::string_view, std::string>> facts{
      {"why", decision.reason},
      {"price", group.price ? to_text(*group.price) : ""},
      {"change", decision.remedy},
      {"kernel", decision.kernel},
      {"pattern", decision.pattern},
      {"qconfig",
       decision.qconfig.empty() ? "" : fmt::format("{} ({})", decision.qconfig, decision.qconfig_source)}};
  for (std::size_t i = 0; i < decision.dtype_configs.size(); ++i) {
    facts.emplace_back("tried", fmt::format("{} -> {}", decision.dtype_configs[i],
                                            i < decision.refusals.size() ? decision.refusals[i] : "taken"));
  }
  std::string text = fmt::format("  {}: {}\n", op_text(decision), some_places(group.places));
  for (const auto& [what, value] : facts) {
    if (!value.empty()) text += fmt::format("    {:<8} {}\n", what, value);
  }
  return text;
}

std::string notes_text(const Report& report) {
  std::vector<std::pair<std::string, std::vector<std::string>>> notes;
  const auto add = [&notes](const std::string& note, const Decision& decision) {
    auto known =
        std::find_if(notes.begin(), notes.end(), [&](const auto& each) { return each.first == note; });
    if (known == notes.end()) known = notes.insert(known, {note, {}});
    known->second.push_back(place(decision));
  };
  for (const Decision& decision : report.decisions) {
    for (const std::string& note : notes_of(decision)) add(note, decision);
    if (!decision.equalization.empty()) add(decision.equalization, decision);
  }
  std::string text;
  for (const auto& [note, places] : notes) text += fmt::format("  {}: {}\n", some_places(places), note);
  return text;
}

}  // namespace

std::string to_text(const OperatorPrice& price) {
  constexpr double kMicroseconds = 1e-3;
  return fmt::format("float {:.3g} µs; int8 {:.3g} µs", kMicroseconds * price.in_float,
                     kMicroseconds * price.in_int8);
}

std::string Totals::macs_text(std::string_view work) const {
  const auto percent = [this](int64_t count) {
    return macs > 0 ? 100 * static_cast<double>(count) / static_cast<double>(macs) : 0;
  };
  std::vector<std::string> parts;
  const auto add = [&](int64_t count, std::string_view how) {
    const std::string of = parts.empty() ? fmt::format(" of {}", work) : "";
    parts.push_back(fmt::format("{:.1f} %{} {}", percent(count), of, how));
  };
  if (int8_macs > 0 || small_weight_macs.empty()) add(int8_macs, "in int8");
  for (const auto& [weights, count] : small_weight_macs) add(count, fmt::format("with {} weights", weights));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string Report::to_text() const {
  const Totals sums = totals(*this);
  std::string text = summary_text(sums);
  for (const UnmatchedEntry& entry : unmatched_entries) text += fmt::format("warning: {}\n", entry.to_text());
  for (const UnmatchedLowering& each : unmatched_lowering) text += fmt::format("note: {}\n", each.to_text());
  if (!python_files.empty()) text += python_files_text(python_files);
  for (const FusedProgram& program : programs) text += program_text(program);
  text += "\n" + table_text(*this, sums);
  for (const bool quantized : {false, true}) {
    const std::vector<Group> groups = groups_of(*this, quantized);
    if (!groups.empty()) text += quantized ? "\nquantized\n" : "\nstayed float\n";
    for (const Group& group : groups) text += group_text(group);
  }
  if (const std::string notes = notes_text(*this); !notes.empty()) text += "\nnotes\n" + notes;
  return text;
}

}  // namespace tsq
