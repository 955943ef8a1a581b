#pragma once

#include <tsq/bench/entry.h>
#include <tsq/bench/machine.h>
#include <tsq/bench/statistics.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tsq::bench {

/// The SHA-1 of a file's content, in hexadecimal digits.
std::string sha1_of(const std::string& path);

/// What was measured of one entry.
struct Measured {
  Entry entry{};
  std::string engine{};
  uint64_t bytes{0};                    ///< of the file
  std::string sha1{};                   ///< of its content
  double rows{1};                       ///< that one call computes, on average
  std::vector<double> load_seconds{};   ///< one a launch
  std::vector<double> first_seconds{};  ///< of the first call; one a launch
  std::optional<uint64_t> peak_memory{};
  Spread latency{};   ///< of all timed calls
  Launches rounds{};  ///< seconds a call: the median of a round's calls; several at once: their time over
                      ///< their number

  /// Rows a second.
  [[nodiscard]] double throughput() const;
};

/// One run of the bench.
struct Result {
  std::vector<Measured> entries{};
  Machine machine{};
  std::vector<std::string> warnings{};
  bool together{false};  ///< all models in one process
  int threads{0};
  std::string date{};     ///< when it began, UTC: "2026-11-26T15:04:05Z"
  std::string command{};  ///< the command line
};

/// How many times as fast as `baseline` an entry is: time for a row, round by round.
Ratio speed_ratio(const Measured& baseline, const Measured& entry);

nlohmann::json to_json(const Result& result);
/// Of what to_json wrote. Throws Error(BadData) when a file of that path's content is something else.
Result result_from(const nlohmann::json& json, const std::string& path);
/// A heading and a line for each entry, in the units of the JSON.
std::string csv_of(const Result& result);

/// An entry of an old run beside the same one of a new run.
struct Change {
  std::string name{};
  Ratio time{};             ///< new over old: above 1 is slower
  bool is_relative{false};  ///< to the baseline
  bool is_regression{false};
};
/// Entries with equal names, which hold their settings. A regression is slower by more than `tolerance` with
/// its whole interval. Where the baseline of an entry is the same file in both runs, the
/// entry's time relative to it is compared: what the baseline gained or lost is the machine's doing.
struct Comparison {
  std::vector<Change> changes{};
  std::vector<std::string> notes{};
  [[nodiscard]] bool has_regressions() const;
};
/// Throws Error(BadData) where no name is in both.
Comparison compare(const Result& before, const Result& after, double tolerance);
nlohmann::json to_json(const Comparison& comparison);

}  // namespace tsq::bench
