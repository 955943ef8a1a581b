#pragma once

#include <tsq/bench/entry.h>
#include <tsq/bench/profile.h>
#include <tsq/bench/result.h>
#include <tsq/progress.h>

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tsq::bench {

/// What a worker's process does: answers one request a line until the input ends. An Error becomes {"error":
/// {code, problem, remedy}}.
void serve(std::istream& requests, std::ostream& answers);

/// Sends a request to a worker and returns its answer. The worker ends with the last copy.
using Ask = std::function<nlohmann::json(const nlohmann::json&)>;
/// Starts a worker.
using Start = std::function<Ask()>;

/// How much is measured.
struct Plan {
  std::size_t launches{5};
  std::optional<std::size_t> rounds{};  ///< of each launch; without: what fits into `seconds`
  double seconds{6};                    ///< of timed calls of each entry, over all launches
  std::optional<std::size_t> warmup{};  ///< calls before; without: until they no longer become faster
  bool together{false};                 ///< all entries in one process, which takes each after the other
};

/// Measures all entries: in each launch workers are started, models loaded and warmed up; then entries take
/// turns, each round beginning with another one. A turn is as many calls as take ten milliseconds, all of one
/// sample, which is another one in the next round. Optional entries that cannot run are left out. The result
/// has no facts about the machine yet.
Result measure(std::vector<Entry> entries, const std::string& data, const Plan& plan, const Start& start,
               const Progress& progress);

struct ProfiledEntry {
  Entry entry{};
  Profile profile{};
};

/// The profile of each entry, with a worker each. LibTorch's callbacks do not see operators that fusion puts
/// in: optional entries are profiled frozen, and then the same file as it was saved is left out.
std::vector<ProfiledEntry> profile(const std::vector<Entry>& entries, const std::string& data,
                                   std::size_t rounds, const Start& start, const Progress& progress);

}  // namespace tsq::bench
