#include <fmt/format.h>
#include <torch/version.h>
#include <tsq/bench/result.h>
#include <tsq/error.h>
#include <tsq/quantize.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_reason.h"

namespace tsq::bench {
namespace {

using nlohmann::json;

json optional_json(const std::optional<uint64_t>& value) { return value ? json(*value) : json(nullptr); }

/// Seconds for a row instead of a call.
Launches per_row(const Measured& measured) {
  Launches launches = measured.rounds;
  for (std::vector<double>& launch : launches) {
    for (double& seconds : launch) seconds /= measured.rows;
  }
  return launches;
}

double median_round(const Measured& measured) {
  std::vector<double> all;
  for (const std::vector<double>& launch : measured.rounds)
    all.insert(all.end(), launch.begin(), launch.end());
  return median(std::move(all));
}

std::vector<Entry> entries_in(const Result& result) {
  std::vector<Entry> entries;
  for (const Measured& measured : result.entries) entries.push_back(measured.entry);
  return entries;
}

Ratio ratio_to_baseline(const Result& result, std::size_t position) {
  const std::size_t baseline = baseline_of(entries_in(result), position);
  return speed_ratio(result.entries[baseline], result.entries[position]);
}

json to_json(const Ratio& ratio) {
  return {{"value", ratio.value},
          {"interval", ratio.interval ? json{ratio.interval->low, ratio.interval->high} : json(nullptr)},
          {"is_a_difference", ratio.is_a_difference()}};
}

json to_json(const Spread& spread) {
  return {{"calls", spread.count}, {"min", spread.min}, {"median", spread.median}, {"mean", spread.mean},
          {"p90", spread.p90},     {"p95", spread.p95}, {"p99", spread.p99},       {"max", spread.max}};
}

json to_json(const Result& result, std::size_t position) {
  const Measured& measured = result.entries[position];
  json value = to_json(measured.entry);
  value.update({{"name", name_of(measured.entry)},
                {"engine", measured.engine},
                {"bytes", measured.bytes},
                {"sha1", measured.sha1},
                {"rows", measured.rows},
                {"load_seconds", measured.load_seconds},
                {"first_seconds", measured.first_seconds},
                {"peak_memory_bytes", optional_json(measured.peak_memory)},
                {"latency_seconds", to_json(measured.latency)},
                {"throughput", measured.throughput()},
                {"ratio", to_json(ratio_to_baseline(result, position))},
                {"rounds", measured.rounds}});
  return value;
}

Spread spread_from(const json& value) {
  return {.count = value.at("calls"),
          .min = value.at("min"),
          .median = value.at("median"),
          .mean = value.at("mean"),
          .p90 = value.at("p90"),
          .p95 = value.at("p95"),
          .p99 = value.at("p99"),
          .max = value.at("max")};
}

Measured measured_from(const json& value) {
  Measured measured{.entry = entry_from(value),
                    .engine = value.at("engine"),
                    .bytes = value.at("bytes"),
                    .rows = value.at("rows"),
                    .load_seconds = value.at("load_seconds"),
                    .first_seconds = value.at("first_seconds"),
                    .peak_memory = {},
                    .latency = spread_from(value.at("latency_seconds")),
                    .rounds = value.at("rounds")};
  if (const json& peak = value.at("peak_memory_bytes"); !peak.is_null())
    measured.peak_memory = peak.get<uint64_t>();
  return measured;
}

bool are_times(const Launches& launches) {
  return !launches.empty() && std::ranges::none_of(launches, &std::vector<double>::empty) &&
         std::ranges::all_of(launches, [](const std::vector<double>& launch) {
           return std::ranges::all_of(launch,
                                      [](double seconds) { return seconds > 0 && std::isfinite(seconds); });
         });
}

bool are_of_one_shape(const Launches& a, const Launches& b) {
  return std::ranges::equal(a, b, {}, &std::vector<double>::size, &std::vector<double>::size);
}

/// Why a result that was read cannot be compared with; empty where it can.
std::string fault_of(const Result& result) {
  const std::vector<Entry> entries = entries_in(result);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Measured& measured = result.entries[i];
    if (!(measured.rows > 0) || !are_times(measured.rounds))
      return fmt::format("models[{}] has no rows, or no times of its rounds", i);
    if (!are_of_one_shape(measured.rounds, result.entries[baseline_of(entries, i)].rounds))
      return fmt::format("models[{}] has other rounds than the model that it is compared with", i);
  }
  return {};
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::BadData, fmt::format("'{}' is no result of 'tsq bench': {}", path, why),
              "give a file that --output or --json made");
}

std::string in_csv(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// Positions in both results that are one thing.
std::vector<std::pair<std::size_t, std::size_t>> pairs_of(const Result& before, const Result& after) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < after.entries.size(); ++i) {
    for (std::size_t j = 0; j < before.entries.size(); ++j) {
      if (name_of(after.entries[i].entry) == name_of(before.entries[j].entry)) pairs.emplace_back(j, i);
    }
  }
  return pairs;
}

std::string others(const Result& result, const std::vector<std::size_t>& seen) {
  std::string names;
  for (std::size_t i = 0; i < result.entries.size(); ++i) {
    if (std::ranges::find(seen, i) == seen.end())
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name_of(result.entries[i].entry));
  }
  return names;
}

/// Seconds for a row, in those of the baseline in the same round.
Launches relative_to(const Measured& baseline, const Measured& measured) {
  Launches launches = per_row(measured);
  const Launches below = per_row(baseline);
  for (std::size_t launch = 0; launch < launches.size(); ++launch) {
    for (std::size_t round = 0; round < launches[launch].size(); ++round)
      launches[launch][round] /= below[launch][round];
  }
  return launches;
}

/// An entry of each of two results: `then` in the old one, `now` in the new one.
Change change_of(const Result& before, std::size_t then, const Result& after, std::size_t now,
                 double tolerance) {
  const Measured& old_entry = before.entries[then];
  const Measured& new_entry = after.entries[now];
  const std::size_t old_base = baseline_of(entries_in(before), then);
  const std::size_t new_base = baseline_of(entries_in(after), now);
  const Measured& old_baseline = before.entries[old_base];
  const Measured& new_baseline = after.entries[new_base];
  const bool has_reference =
      name_of(old_baseline.entry) == name_of(new_baseline.entry) && old_baseline.bytes == new_baseline.bytes;
  Change change{.name = name_of(new_entry.entry)};
  change.is_relative = has_reference && then != old_base && now != new_base;
  change.time = change.is_relative ? unpaired_ratio(relative_to(new_baseline, new_entry),
                                                    relative_to(old_baseline, old_entry))
                                   : unpaired_ratio(per_row(new_entry), per_row(old_entry));
  // The same file as a reference for others tells how the machine's speed differs.
  const bool is_reference = has_reference && now == new_base && after.entries.size() > 1;
  change.is_regression = !is_reference && change.time.interval && change.time.interval->low > 1 + tolerance;
  return change;
}

}  // namespace

double Measured::throughput() const { return rows / median_round(*this); }

Ratio speed_ratio(const Measured& baseline, const Measured& entry) {
  return paired_ratio(per_row(baseline), per_row(entry));
}

json to_json(const Result& result) {
  json entries = json::array();
  for (std::size_t i = 0; i < result.entries.size(); ++i) entries.push_back(to_json(result, i));
  return {{"tsq", version()},
          {"torch", TORCH_VERSION},
          {"date", result.date},
          {"command", result.command},
          {"models", entries},
          {"machine", to_json(result.machine)},
          {"warnings", result.warnings},
          {"together", result.together},
          {"threads", result.threads}};
}

Result result_from(const json& value, const std::string& path) {
  try {
    Result result;
    for (const json& entry : value.at("models")) result.entries.push_back(measured_from(entry));
    const json& machine = value.at("machine");
    result.machine.processor = machine.at("processor");
    result.machine.allowed = machine.at("allowed");
    result.threads = value.at("threads");
    result.together = value.at("together");
    if (const std::string fault = fault_of(result); !fault.empty()) refuse(path, fault);
    return result;
  } catch (const json::exception& error) {
    refuse(path, json_reason(error));
  }
}

std::string csv_of(const Result& result) {
  std::string text =
      "name,engine,threads,batch,concurrency,bytes,load_seconds,first_seconds,peak_memory_bytes,calls,min,"
      "median,"
      "mean,p90,p95,p99,max,throughput,ratio,ratio_low,ratio_high\n";
  for (std::size_t i = 0; i < result.entries.size(); ++i) {
    const Measured& m = result.entries[i];
    const Ratio ratio = ratio_to_baseline(result, i);
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", in_csv(name_of(m.entry)),
        m.engine, m.entry.setting.threads, m.entry.batch ? std::to_string(*m.entry.batch) : "",
        m.entry.concurrency, m.bytes, median(m.load_seconds), median(m.first_seconds),
        m.peak_memory ? std::to_string(*m.peak_memory) : "", m.latency.count, m.latency.min, m.latency.median,
        m.latency.mean, m.latency.p90, m.latency.p95, m.latency.p99, m.latency.max, m.throughput(),
        ratio.value, ratio.interval ? fmt::format("{}", ratio.interval->low) : "",
        ratio.interval ? fmt::format("{}", ratio.interval->high) : "");
  }
  return text;
}

bool Comparison::has_regressions() const { return std::ranges::any_of(changes, &Change::is_regression); }

Comparison compare(const Result& before, const Result& after, double tolerance) {
  Comparison comparison;
  std::vector<std::size_t> seen_before;
  std::vector<std::size_t> seen_after;
  for (const auto& [then, now] : pairs_of(before, after)) {
    comparison.changes.push_back(change_of(before, then, after, now, tolerance));
    seen_before.push_back(then);
    seen_after.push_back(now);
  }
  if (comparison.changes.empty())
    throw Error(ErrorCode::BadData,
                fmt::format("the old result has none of the models that were measured: it has {}, not {}",
                            others(before, {}), others(after, {})),
                "give the same files with the same settings");
  if (std::ranges::none_of(comparison.changes,
                           [](const Change& each) { return each.time.interval.has_value(); }))
    comparison.notes.emplace_back("too few launches to tell a change from chance: use three or more in both");
  if (before.machine.processor != after.machine.processor)
    comparison.notes.push_back(fmt::format("taken on other machines: '{}' and '{}'", before.machine.processor,
                                           after.machine.processor));
  if (const std::string names = others(before, seen_before); !names.empty())
    comparison.notes.push_back(fmt::format("only in the old result: {}", names));
  if (const std::string names = others(after, seen_after); !names.empty())
    comparison.notes.push_back(fmt::format("only in the new result: {}", names));
  return comparison;
}

json to_json(const Comparison& comparison) {
  json changes = json::array();
  for (const Change& change : comparison.changes)
    changes.push_back({{"name", change.name},
                       {"time", to_json(change.time)},
                       {"is_relative", change.is_relative},
                       {"is_regression", change.is_regression}});
  return {
      {"changes", changes}, {"notes", comparison.notes}, {"has_regressions", comparison.has_regressions()}};
}

}  // namespace tsq::bench
