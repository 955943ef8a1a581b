#include "cli/printing/profile_tables.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "cli/printing/json_list.h"
#include "cli/printing/texts.h"

namespace tsq::cli {
namespace {

using nlohmann::json;

constexpr double kMilliseconds = 1000;

/// For each model milliseconds and the number of operators.
void add_line(std::vector<std::vector<std::string>>& cells, const bench::ProfileRow& row) {
  std::vector<std::string> line{row.name};
  for (std::size_t i = 0; i < row.seconds.size(); ++i)
    line.insert(line.end(),
                {fmt::format("{:.3f}", kMilliseconds * row.seconds[i]), std::to_string(row.counts[i])});
  if (row.seconds.size() > 1) {
    // An operator that only one of the two has was replaced by others: it is neither faster nor slower.
    const bool is_in_both = row.seconds.front() > 0 && row.seconds.back() > 0;
    const double difference = row.seconds.back() - row.seconds.front();
    line.push_back(is_in_both ? fmt::format("{:+.3f}", kMilliseconds * difference) : "-");
  }
  cells.push_back(std::move(line));
}

/// Models have their numbers as headings.
std::string text_of(const std::string& title, const std::vector<bench::ProfileRow>& rows) {
  const std::size_t models = rows.front().seconds.size();
  std::vector<std::vector<std::string>> cells{{title}};
  for (std::size_t i = 1; i <= models; ++i) cells[0].insert(cells[0].end(), {fmt::format("({}) ms", i), "n"});
  if (models > 1) cells[0].push_back(fmt::format("({}) - (1)", models));
  bench::ProfileRow whole{.name = "whole run",
                          .counts = std::vector<std::size_t>(models),
                          .seconds = std::vector<double>(models)};
  for (const bench::ProfileRow& row : rows) {
    add_line(cells, row);
    for (std::size_t i = 0; i < models; ++i) {
      whole.seconds[i] += row.seconds[i];
      whole.counts[i] += row.counts[i];
    }
  }
  add_line(cells, whole);
  return text_table(cells) + '\n';
}

json to_json(const std::vector<bench::ProfileRow>& rows) {
  return json_list(rows, [](const bench::ProfileRow& row) -> json {
    return {{"name", row.name}, {"counts", row.counts}, {"seconds", row.seconds}};
  });
}

std::string without_row_text(const std::vector<std::string>& layers) {
  if (layers.empty()) return {};
  const bool is_one = layers.size() == 1;
  return fmt::format(
      "{} layer{} without a row, as not all models name {}: the time is in the row before ({})\n",
      layers.size(), is_one ? "" : "s", is_one ? "it" : "them", first_names(layers));
}

/// What the programs of one model do, in the order of the run; empty where it has none.
std::string steps_text(std::size_t number, const bench::Profile& profile) {
  std::vector<std::vector<std::string>> cells{
      {fmt::format("inside the programs of ({})", number), "operation", "kernel", "shape", "ms"}};
  for (const bench::OperatorTime& program : profile.operators) {
    for (const bench::OperatorTime& step : program.steps)
      cells.push_back({step.layer, step.kind, step.kernel, step.shape,
                       fmt::format("{:.4f}", kMilliseconds * step.seconds)});
  }
  return cells.size() > 1 ? '\n' + text_table(cells, {0, 1, 2, 3}) : std::string();
}

}  // namespace

std::string profile_text(const std::vector<std::string>& names, const std::vector<bench::Profile>& profiles) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) text += fmt::format("({}) {}\n", i + 1, names[i]);
  text += '\n' + text_of("operator", bench::by_kind(profiles)) +
          text_of("layer, with what follows it", bench::by_layer(profiles)) +
          without_row_text(bench::layers_without_row(profiles));
  for (std::size_t i = 0; i < profiles.size(); ++i) text += steps_text(i + 1, profiles[i]);
  return text;
}

json profile_json(const std::vector<std::string>& names, const std::vector<bench::Profile>& profiles) {
  return {{"models", names},
          {"kinds", to_json(bench::by_kind(profiles))},
          {"layers", to_json(bench::by_layer(profiles))},
          {"without_row", bench::layers_without_row(profiles)},
          {"profiles",
           json_list(profiles, [](const bench::Profile& profile) { return bench::to_json(profile); })}};
}

}  // namespace tsq::cli
