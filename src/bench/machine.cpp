#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <tsq/bench/machine.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tsq::bench {
namespace {

/// What decides which of LibTorch's and oneDNN's kernels run, in the words of /proc/cpuinfo.
constexpr std::array<std::string_view, 13> kFeatures{
    "sse4_1",      "avx2",        "fma",      "f16c",     "avx512f", "avx512bw", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_int8", "asimddp", "i8mm"};

std::string text_of_file(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

void read_flags(Machine& machine, const std::string& flags) {
  std::istringstream words(flags);
  for (std::string word; words >> word;) {
    if (word == "hypervisor") machine.is_virtual = true;
    if (std::ranges::find(kFeatures, word) != kFeatures.end()) machine.features.push_back(word);
  }
}

int allowed_processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

std::optional<double> first_number(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? std::nullopt : std::optional(number);
}

}  // namespace

Machine machine_from(std::string_view cpuinfo) {
  Machine machine;
  std::istringstream lines{std::string(cpuinfo)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view key = trimmed(std::string_view(line).substr(0, colon));
    const std::string value(trimmed(std::string_view(line).substr(colon + 1)));
    if (key == "processor") ++machine.processors;
    if (machine.processors > 1) continue;  // the others are alike
    if (key == "model name") machine.processor = value;
    if (key == "cpu MHz") machine.mhz = first_number(value);
    if (key == "flags" || key == "Features") read_flags(machine, value);
  }
  return machine;
}

Machine this_machine() {
  Machine machine = machine_from(text_of_file("/proc/cpuinfo"));
  machine.allowed = allowed_processors();
  machine.governor = trimmed(text_of_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  machine.load = first_number(text_of_file("/proc/loadavg"));
  return machine;
}

ProcessorTime processor_time_from(std::string_view stat) {
  std::istringstream numbers{std::string(stat.substr(0, stat.find('\n')))};
  std::string name;
  numbers >> name;
  // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in user already.
  std::array<double, 8> ticks{};
  for (double& tick : ticks) numbers >> tick;
  ProcessorTime time{.idle = ticks[3] + ticks[4], .stolen = ticks[7]};
  for (const double tick : ticks) time.all += tick;
  return time;
}

ProcessorTime processor_time() { return processor_time_from(text_of_file("/proc/stat")); }

std::vector<std::string> warnings_about(const Machine& machine, const ProcessorTime& before,
                                        const ProcessorTime& after, double scatter) {
  constexpr double kBusy = 0.5;
  constexpr double kStolen = 0.01;
  constexpr double kScatter = 1.2;
  std::vector<std::string> warnings;
  if (machine.load.value_or(0) > kBusy)
    warnings.push_back(fmt::format("{:.1f} processes ran already when it began", *machine.load));
  const double all = after.all - before.all;
  if (all > 0 && after.stolen - before.stolen > kStolen * all)
    warnings.push_back(
        fmt::format("the host took {:.0f} % of the time away", 100 * (after.stolen - before.stolen) / all));
  if (scatter > kScatter)
    warnings.push_back(fmt::format("one call in ten takes {:.2f} times the median or longer", scatter));
  if (machine.governor == "powersave" || machine.governor == "ondemand")
    warnings.push_back(fmt::format("the frequency governor is '{}': set 'performance'", machine.governor));
  return warnings;
}

nlohmann::json to_json(const Machine& machine) {
  return {{"processor", machine.processor},
          {"features", machine.features},
          {"virtual", machine.is_virtual},
          {"processors", machine.processors},
          {"allowed", machine.allowed},
          {"mhz", machine.mhz ? nlohmann::json(*machine.mhz) : nlohmann::json(nullptr)},
          {"governor", machine.governor.empty() ? "unknown" : machine.governor},
          {"load", machine.load ? nlohmann::json(*machine.load) : nlohmann::json(nullptr)}};
}

std::string text_of(const Machine& machine) {
  std::string text = fmt::format("{}, {} processors{}", machine.processor, machine.processors,
                                 machine.is_virtual ? " (virtual)" : "");
  if (machine.allowed < machine.processors) text += fmt::format(", pinned to {}", machine.allowed);
  if (machine.mhz) text += fmt::format(", {:.0f} MHz", *machine.mhz);
  if (!machine.governor.empty()) text += fmt::format(", governor {}", machine.governor);
  if (machine.load) text += fmt::format(", load {:.1f}", *machine.load);
  return text + fmt::format("; {}", fmt::join(machine.features, " "));
}

}  // namespace tsq::bench
