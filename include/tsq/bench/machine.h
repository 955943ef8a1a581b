#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// On what times were taken.
namespace tsq::bench {

/// What is known of a machine; empty or 0 where it does not say.
struct Machine {
  std::string processor{};              ///< "AMD EPYC 9R45"
  std::vector<std::string> features{};  ///< of vector arithmetic: "avx2", "avx512_vnni" …
  bool is_virtual{false};
  int processors{0};            ///< that there are
  int allowed{0};               ///< that this process may run on
  std::optional<double> mhz{};  ///< of the first processor, when it was asked
  std::string governor{};
  std::optional<double> load{};  ///< processes that ran in the last minute, on average
};

/// Of a running Linux.
Machine this_machine();
/// Out of the text of /proc/cpuinfo.
Machine machine_from(std::string_view cpuinfo);

/// Processor time that others took and that the host took away, as counted in the first line of /proc/stat.
struct ProcessorTime {
  double all{0};
  double idle{0};
  double stolen{0};
};
ProcessorTime processor_time_from(std::string_view stat);
ProcessorTime processor_time();

/// What makes the times of this run doubtful, one sentence each: a loaded machine, stolen time, calls that
/// scatter, a governor that saves power. `scatter`: the 90th percentile of calls over their median, of the
/// steadiest entry.
std::vector<std::string> warnings_about(const Machine& machine, const ProcessorTime& before,
                                        const ProcessorTime& after, double scatter);

nlohmann::json to_json(const Machine& machine);
/// One line: "AMD EPYC 9R45, 2 processors (virtual), 2599 MHz, load 0.4; avx2 avx512f avx512_vnni".
std::string text_of(const Machine& machine);

}  // namespace tsq::bench
