#include <c10/util/hash.h>
#include <fmt/format.h>
#include <tsq/bench/measure.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/worker.h"

namespace tsq::bench {
namespace {

using nlohmann::json;

constexpr double kTurnSeconds = 0.01;

/// An entry in a worker.
struct Seat {
  Ask ask{};
  std::size_t number{0};  ///< within the worker
  std::size_t calls{1};   ///< of a turn
};

/// The answer to a request about a loaded entry.
json asked(const Seat& seat, json request) {
  request["entry"] = seat.number;
  json answer = seat.ask(request);
  throw_error_in(answer);
  return answer;
}

struct Turn {
  std::vector<double> seconds{};
  double wall{0};
};

Turn turn_of(const Seat& seat, std::size_t sample, std::size_t calls) {
  const json answer = asked(seat, {{"do", "turn"}, {"sample", sample}, {"calls", calls}});
  return {.seconds = answer.at("seconds"), .wall = answer.at("wall")};
}

/// Seconds a call: several callers at once finish more calls than their latencies say.
double seconds_a_call(const Turn& turn, const Entry& entry) {
  return entry.concurrency > 1 ? turn.wall / static_cast<double>(turn.seconds.size()) : median(turn.seconds);
}

/// Calls until they no longer become faster; returns the median time of the last ones.
double warm_up(const Seat& seat, const Plan& plan) {
  constexpr double kLongest = 10;
  constexpr std::size_t kFewest = 3;  // LibTorch specialises a model in its first runs
  constexpr std::size_t kMost = 200;
  std::vector<double> seconds;
  double spent = 0;
  const auto is_done = [&] {
    if (plan.warmup) return seconds.size() >= *plan.warmup;
    return is_warm(seconds) || seconds.size() >= kMost || (seconds.size() >= kFewest && spent > kLongest);
  };
  while (!is_done()) {
    seconds.push_back(median(turn_of(seat, 0, 1).seconds));
    spent += 2 * seconds.back();  // a turn has a call that is not timed
  }
  if (seconds.empty()) return median(turn_of(seat, 0, 1).seconds);
  const auto last = static_cast<std::ptrdiff_t>((seconds.size() + 2) / 3);
  return median({seconds.end() - last, seconds.end()});
}

std::size_t calls_of_turn(double seconds) {
  constexpr double kMost = 1000;
  return static_cast<std::size_t>(std::clamp(kTurnSeconds / seconds, 1.0, kMost));
}

/// The entries' workers in one launch.
class Launch {
 public:
  Launch(const Start& start, bool together) : start_(start), together_(together) {}

  /// Loads an entry; its answer.
  json load(const Entry& entry, const std::string& data) {
    const bool is_new = !together_ || seats_.empty();
    Seat seat{.ask = is_new ? start_() : seats_.front().ask, .number = is_new ? 0 : seats_.size()};
    json answer = seat.ask(
        {{"do", "load"}, {"entry", to_json(entry)}, {"is_optional", entry.is_optional}, {"data", data}});
    throw_error_in(answer);
    seats_.push_back(std::move(seat));
    return answer;
  }
  [[nodiscard]] std::vector<Seat>& seats() noexcept { return seats_; }

 private:
  const Start& start_;
  bool together_;
  std::vector<Seat> seats_{};
};

void add_load(Measured& measured, const json& answer) {
  measured.engine = answer.at("engine");
  measured.bytes = answer.at("bytes");
  measured.rows = answer.at("rows");
  measured.load_seconds.push_back(answer.at("load_seconds"));
  measured.first_seconds.push_back(answer.at("first_seconds"));
}

/// Optional entries that cannot run are taken out, which the first launch finds.
void load_all(Launch& launch, Result& result, const std::string& data, bool is_first) {
  for (auto entry = result.entries.begin(); entry != result.entries.end();) {
    try {
      add_load(*entry, launch.load(entry->entry, data));
      ++entry;
    } catch (const Error& error) {
      if (!is_first || !entry->entry.is_optional) throw;
      result.warnings.push_back(fmt::format("'{}' cannot run, so that ratios are to what is slower: {}",
                                            name_of(entry->entry), error.problem()));
      entry = result.entries.erase(entry);
    }
  }
}

/// Whether an entry could be loaded; only an optional one may fail.
bool is_loaded(Launch& launch, const Entry& entry, const std::string& data) {
  try {
    launch.load(entry, data);
    return true;
  } catch (const Error&) {
    if (!entry.is_optional) throw;
    return false;
  }
}

/// Rounds that take a launch's share of the time.
std::size_t rounds_of(const Plan& plan, const std::vector<Seat>& seats, const std::vector<double>& seconds) {
  constexpr double kFewest = 5;
  constexpr double kMost = 1000;
  if (plan.rounds) return *plan.rounds;
  double round = 0;
  for (std::size_t i = 0; i < seats.size(); ++i)
    round += static_cast<double>(seats[i].calls + 1) * seconds[i];
  const double share = plan.seconds * static_cast<double>(seats.size()) / static_cast<double>(plan.launches);
  return static_cast<std::size_t>(std::clamp(share / round, kFewest, kMost));
}

/// The calls of all entries, by entry.
using Calls = std::vector<std::vector<double>>;

void take_turns(const std::vector<Seat>& seats, std::size_t round, std::vector<Measured>& measured,
                Calls& calls) {
  for (std::size_t turn = 0; turn < seats.size(); ++turn) {
    const std::size_t i = (round + turn) % seats.size();
    const Turn taken = turn_of(seats[i], round, seats[i].calls);
    calls[i].insert(calls[i].end(), taken.seconds.begin(), taken.seconds.end());
    measured[i].rounds.back().push_back(seconds_a_call(taken, measured[i].entry));
  }
}

void add_memory(const Seat& seat, Measured& measured) {
  const json peak = asked(seat, {{"do", "end"}}).at("peak_memory");
  if (!peak.is_null())
    measured.peak_memory = std::max(measured.peak_memory.value_or(0), peak.get<uint64_t>());
}

void run_launch(Launch& launch, const Plan& plan, std::size_t number, std::vector<Measured>& measured,
                Calls& calls, const Progress& progress) {
  std::vector<Seat>& seats = launch.seats();
  std::vector<double> seconds;
  for (Seat& seat : seats) {
    seconds.push_back(warm_up(seat, plan));
    seat.calls = calls_of_turn(seconds.back());
  }
  for (Measured& entry : measured) entry.rounds.emplace_back();
  const std::size_t rounds = rounds_of(plan, seats, seconds);
  for (std::size_t round = 0; round < rounds; ++round) {
    take_turns(seats, round, measured, calls);
    progress(number * rounds + round + 1, plan.launches * rounds);
  }
  for (std::size_t i = 0; i < seats.size(); ++i) add_memory(seats[i], measured[i]);
}

}  // namespace

std::string sha1_of(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return c10::sha1(content.str()).str();
}

Result measure(std::vector<Entry> entries, const std::string& data, const Plan& plan, const Start& start,
               const Progress& progress) {
  Result result{.together = plan.together};
  for (Entry& entry : entries) result.entries.push_back({.entry = std::move(entry)});
  Calls calls;
  for (std::size_t number = 0; number < plan.launches; ++number) {
    Launch launch(start, plan.together);
    load_all(launch, result, data, number == 0);
    calls.resize(result.entries.size());
    run_launch(launch, plan, number, result.entries, calls, progress);
  }
  std::map<std::string, std::string> hashes;
  for (std::size_t i = 0; i < result.entries.size(); ++i) {
    Measured& measured = result.entries[i];
    measured.latency = spread_of(std::move(calls[i]));
    const auto [hash, is_new] = hashes.try_emplace(measured.entry.setting.path);
    if (is_new) hash->second = sha1_of(hash->first);
    measured.sha1 = hash->second;
  }
  return result;
}

std::vector<ProfiledEntry> profile(const std::vector<Entry>& entries, const std::string& data,
                                   std::size_t rounds, const Start& start, const Progress& progress) {
  std::vector<ProfiledEntry> profiles;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Entry entry = entries[i];
    const bool is_again = !profiles.empty() && profiles.back().entry.is_optional &&
                          profiles.back().entry.setting.path == entry.setting.path && !entry.is_optional;
    if (is_again) continue;
    if (entry.is_optional) entry.setting.form = Form::Frozen;
    Launch launch(start, false);
    if (!is_loaded(launch, entry, data)) continue;
    profiles.push_back(
        {entry, profile_from(asked(launch.seats().front(), {{"do", "profile"}, {"rounds", rounds}}))});
    progress(i + 1, entries.size());
  }
  return profiles;
}

}  // namespace tsq::bench
