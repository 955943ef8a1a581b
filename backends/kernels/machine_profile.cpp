#include "backends/kernels/machine_profile.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>

#include "backends/kernels/built_in_profiles.h"
#include "backends/kernels/time_rows.h"
#include "base/text.h"
#include "config/json.h"

namespace tsq {
namespace {

constexpr const char* kFormat = "tsq machine profile";
constexpr int kVersion = 1;
constexpr const char* kWriteAnew = "write it anew with 'tsq tune --output FILE.json'";
/// More than any profile has, and few enough to be looked up.
constexpr std::size_t kMostCalls = 100'000;

using Numbers = std::map<std::string, double>;

void require_format(const JsonValue& at) {
  const nlohmann::json& json = at.json();
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat)
    at.fail(fmt::format("it is no profile of a machine: its 'format' is not \"{}\"", kFormat), kWriteAnew);
  const std::int64_t version = at.at("version").integer();
  if (version != kVersion)
    at.fail(fmt::format("its format has version {}, and this tsq reads version {}", version, kVersion),
            version > kVersion ? "use the tsq that wrote it, or a later one" : kWriteAnew);
}

/// Numbers of 0 or more by their names.
Numbers read_numbers(const JsonValue& at, std::string_view what) {
  Numbers numbers;
  for (const auto& [name, value] : at.members(what)) {
    const double number = value.number();
    if (!(number >= 0) || !std::isfinite(number))
      value.fail(fmt::format("it is {}, and times are numbers of 0 or more", number), kWriteAnew);
    numbers[name] = number;
  }
  return numbers;
}

int read_threads(const std::string& text, const JsonValue& at) {
  int threads = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (code != std::errc() || end != text.data() + text.size() || threads < 1)
    at.fail(fmt::format("'{}' is no number of threads", text), "use a number of 1 or more");
  return threads;
}

MachineProfile::Kernels read_kernels(const JsonValue& at) {
  MachineProfile::Kernels kernels;
  for (const auto& [name, value] : at.members("kernels")) kernels[name] = read_numbers(value, "times");
  return kernels;
}

MeasuredKernel read_measured(const JsonValue& at) {
  constexpr std::array<std::string_view, 4> kKeys{"kernel", "threads", "work", "nanoseconds"};
  at.expect_object("a measured kernel", kKeys);
  MeasuredKernel measured{.kernel = at.at("kernel").string(),
                          .threads = at.at("threads").index(),
                          .work = read_numbers(at.at("work"), "sizes"),
                          .nanoseconds = at.at("nanoseconds").number()};
  if (!(measured.nanoseconds > 0)) at.at("nanoseconds").fail("a call takes some time", kWriteAnew);
  return measured;
}

std::string text_of_file(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    throw Error(ErrorCode::BadConfig, fmt::format("file '{}' does not exist", path),
                "check the path, or write it with 'tsq tune --output FILE.json'");
  if (!std::filesystem::is_regular_file(path, code))
    throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not a regular file", path),
                "give the path of a profile that 'tsq tune' wrote");
  if (std::filesystem::file_size(path, code) > kLongestJson)
    throw Error(ErrorCode::BadConfig, fmt::format("file '{}' is too long for a profile", path), kWriteAnew);
  std::ifstream file(path, std::ios::binary);
  std::string text;
  try {
    file.exceptions(std::ios::failbit | std::ios::badbit);
    text.assign(std::istreambuf_iterator<char>(file), {});
  } catch (const std::ios::failure&) {
    throw Error(ErrorCode::BadConfig, fmt::format("file '{}' cannot be read: {}", path, std::strerror(errno)),
                "check its permissions");
  }
  return text;
}

std::vector<std::string_view> built_in_names() {
  std::vector<std::string_view> names;
  for (const kernels::BuiltInProfile& profile : kernels::built_in_profiles()) names.push_back(profile.name);
  return names;
}

}  // namespace

nlohmann::json MachineProfile::to_dict() const {
  nlohmann::json json{
      {"format", kFormat},      {"version", kVersion},       {"name", name},
      {"processor", processor}, {"estimated", is_estimated}, {"threads", nlohmann::json::object()}};
  for (const auto& [threads, kernels] : by_threads) json["threads"][std::to_string(threads)] = kernels;
  for (const MeasuredKernel& each : measured) {
    json["measured"].push_back({{"kernel", each.kernel},
                                {"threads", each.threads},
                                {"work", each.work},
                                {"nanoseconds", each.nanoseconds}});
  }
  return json;
}

MachineProfile MachineProfile::from_dict(const nlohmann::json& json) {
  constexpr std::array<std::string_view, 7> kKeys{"format",    "version", "name",    "processor",
                                                  "estimated", "threads", "measured"};
  const JsonValue at(json);
  require_format(at);
  at.expect_object("a profile of a machine", kKeys);
  MachineProfile profile{.name = at.at("name").string(),
                         .processor = at.at("processor").string(),
                         .is_estimated = at.at("estimated").boolean()};
  for (const auto& [threads, kernels] : at.at("threads").members("threads"))
    profile.by_threads[read_threads(threads, kernels)] = read_kernels(kernels);
  if (at.is_given("measured")) {
    for (const JsonValue& each : at.at("measured").elements("measured kernels", kMostCalls))
      profile.measured.push_back(read_measured(each));
  }
  return profile;
}

std::shared_ptr<const MachineProfile> machine_profile(std::string_view name) {
  static std::mutex reading;
  static std::map<std::string_view, std::shared_ptr<const MachineProfile>> read;
  for (const kernels::BuiltInProfile& profile : kernels::built_in_profiles()) {
    if (profile.name != name) continue;
    const std::lock_guard lock(reading);
    std::shared_ptr<const MachineProfile>& known = read[profile.name];
    if (known == nullptr)
      known = std::make_shared<const MachineProfile>(
          MachineProfile::from_dict(parse_json(profile.json, fmt::format("profile '{}'", name))));
    return known;
  }
  throw Error(ErrorCode::BadConfig, fmt::format("there is no profile '{}' of a processor", name),
              suggestion(name, built_in_names()));
}

std::vector<std::string> machine_profile_names() {
  const std::vector<std::string_view> names = built_in_names();
  return {names.begin(), names.end()};
}

std::shared_ptr<const MachineProfile> load_machine_profile(const std::string& path) {
  const std::string text = text_of_file(path);
  try {
    return std::make_shared<const MachineProfile>(
        MachineProfile::from_dict(parse_json(text, fmt::format("'{}'", path))));
  } catch (const Error& error) {
    const bool names_file = error.problem().find(path) != std::string::npos;
    throw Error(error.code(), names_file ? error.problem() : fmt::format("'{}': {}", path, error.problem()),
                error.remedy());
  }
}

namespace kernels {
namespace {

/// Sizes by their names, with what they are where nothing is said.
struct SizeName {
  const char* name;
  double (*value)(const KernelWork& work);
  double standard;
};
constexpr std::array kSizes{
    SizeName{"values_in", [](const KernelWork& work) { return work.values_in; }, 0},
    SizeName{"values_out", [](const KernelWork& work) { return work.values_out; }, 0},
    SizeName{"weights", [](const KernelWork& work) { return work.weights; }, 0},
    SizeName{"batch", [](const KernelWork& work) { return work.batch; }, 1},
    SizeName{"rows", [](const KernelWork& work) { return work.rows; }, 0},
    SizeName{"groups", [](const KernelWork& work) { return work.groups; }, 1},
    SizeName{"inputs", [](const KernelWork& work) { return work.inputs; }, 0},
    SizeName{"outputs", [](const KernelWork& work) { return work.outputs; }, 0},
    SizeName{"taps", [](const KernelWork& work) { return work.taps; }, 1},
    SizeName{"is_same", [](const KernelWork& work) { return work.is_same ? 1.0 : 0.0; }, 1},
    SizeName{"is_strided", [](const KernelWork& work) { return work.is_strided ? 1.0 : 0.0; }, 0},
    SizeName{"is_channels_last", [](const KernelWork& work) { return work.is_channels_last ? 1.0 : 0.0; }, 0},
    SizeName{"is_returned", [](const KernelWork& work) { return work.is_returned ? 1.0 : 0.0; }, 0},
    SizeName{"is_turned", [](const KernelWork& work) { return work.is_turned ? 1.0 : 0.0; }, 0},
    SizeName{"lines", [](const KernelWork& work) { return work.lines; }, 0},
    SizeName{"steps", [](const KernelWork& work) { return work.steps; }, 0},
    SizeName{"simple_posts", [](const KernelWork& work) { return work.simple_posts; }, 0},
    SizeName{"function_posts", [](const KernelWork& work) { return work.function_posts; }, 0},
    SizeName{"heavy_posts", [](const KernelWork& work) { return work.heavy_posts; }, 0},
    SizeName{"tensor_posts", [](const KernelWork& work) { return work.tensor_posts; }, 0},
};

/// The profile of processors like it.
std::string_view profile_name(TargetCpu cpu) {
#if defined(__x86_64__) || defined(__i386__)
  const bool has_amx = __builtin_cpu_supports("amx-int8") != 0;
#else
  const bool has_amx = false;
#endif
  if (cpu == TargetCpu::Amx || (cpu == TargetCpu::Native && has_amx)) return "amx";
  return has_vnni(cpu) ? "avx512-vnni" : "avx2";
}

/// The kernels for the most threads that are not more than these; those of the fewest where all are more.
const MachineProfile::Kernels* kernels_for(const MachineProfile& profile, int threads) {
  if (profile.by_threads.empty()) return nullptr;
  auto after = profile.by_threads.upper_bound(threads);
  if (after != profile.by_threads.begin()) --after;
  return &after->second;
}

std::optional<double> as_measured(const MachineProfile& profile, const Kernel& kernel,
                                  const KernelWork& work) {
  if (profile.measured.empty()) return std::nullopt;
  const std::string name = name_of(kernel);
  std::optional<Numbers> sizes;
  for (const MeasuredKernel& each : profile.measured) {
    if (each.threads != kernel.threads || each.kernel != name) continue;
    if (!sizes) sizes = sizes_of(work);
    if (each.work == *sizes) return each.nanoseconds;
  }
  return std::nullopt;
}

double sum_of(const MachineProfile::Coefficients& coefficients, const TimeRow& row, const KernelWork& work) {
  double sum = 0;
  for (const Feature& feature : row.features) {
    const auto coefficient = coefficients.find(std::string(feature.name));
    if (coefficient != coefficients.end()) sum += coefficient->second * feature.value(work);
  }
  return sum;
}

}  // namespace

std::shared_ptr<const MachineProfile> profile_of(const Target& target) {
  return target.machine != nullptr ? target.machine : machine_profile(profile_name(target.cpu));
}

std::map<std::string, double> sizes_of(const KernelWork& work) {
  std::map<std::string, double> sizes;
  for (const SizeName& size : kSizes) {
    if (const double value = size.value(work); value != size.standard) sizes[size.name] = value;
  }
  return sizes;
}

std::string name_of(const Kernel& kernel) {
  return kernel.engine.empty() ? std::string(kernel.name) : fmt::format("{} {}", kernel.engine, kernel.name);
}

std::optional<double> nanoseconds(const MachineProfile& profile, const Kernel& kernel,
                                  const KernelWork& work) {
  if (const auto measured = as_measured(profile, kernel, work)) return measured;
  const MachineProfile::Kernels* known = kernels_for(profile, kernel.threads);
  if (known == nullptr) return std::nullopt;
  for (const TimeRow& row : time_rows(kernel.name, work)) {
    const auto found = known->find(name_of(row, kernel.engine));
    if (found != known->end()) return sum_of(found->second, row, work);
  }
  return std::nullopt;
}

}  // namespace kernels
}  // namespace tsq
