#include <torch/csrc/jit/api/module.h>
#include <tsq/bench/profile.h>
#include <tsq/bench/statistics.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "backends/kernels/engine_packing.h"
#include "base/attribute_name.h"
#include "bench/program_times.h"
#include "io/samples.h"
#include "pipeline/operator_watch.h"
#include "torchscript/kept_state.h"

namespace tsq::bench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kConversions = "(conversions)";
constexpr std::string_view kBetween = "(between operators)";
constexpr std::string_view kBefore = "(before the first layer)";

double seconds_after(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Profile profile_of_run(const torch::jit::Module& module, at::QEngine engine, const Sample& sample,
                       detail::LayerNames& layers) {
  Sample arguments = detail::copy_of(sample);
  const kernels::EnginePacking packing(engine);
  Profile run;
  Clock::time_point begin;
  const auto begins = [&](const at::RecordFunction& function) {
    run.operators.push_back({.kind = function.name(), .layer = layers.of(function)});
    run.operators.back().start = seconds_after(begin);
  };
  const auto ended = [&](const at::RecordFunction& /*function*/) {
    OperatorTime& time = run.operators.back();
    time.seconds = seconds_after(begin) - time.start;
  };
  const detail::OperatorWatch watch(begins, ended, false);
  begin = Clock::now();
  module.get_method("forward")(std::move(arguments));
  run.seconds = seconds_after(begin);
  return run;
}

/// The calls of programs in one more run, in order. They hold their arguments.
std::vector<ProgramCall> program_calls(const torch::jit::Module& module, at::QEngine engine,
                                       const Sample& sample) {
  const kernels::EnginePacking packing(engine);
  std::vector<ProgramCall> calls;
  const auto begins = [&](const at::RecordFunction& function) {
    if (!is_program(function.name())) return;
    const auto arguments = detail::arguments_of(function);
    calls.emplace_back(arguments.begin(), arguments.end());
  };
  const detail::OperatorWatch watch(
      begins, [](const at::RecordFunction&) {}, false);
  module.get_method("forward")(detail::copy_of(sample));
  return calls;
}

/// The model's random numbers may take another way through it: then nothing is known of its programs.
void look_into_programs(Profile& profile, const std::vector<ProgramCall>& calls, std::size_t rounds) {
  std::vector<OperatorTime*> programs;
  for (OperatorTime& time : profile.operators) {
    if (is_program(time.kind)) programs.push_back(&time);
  }
  if (programs.size() != calls.size()) return;
  for (std::size_t i = 0; i < calls.size(); ++i) add_steps(*programs[i], times_within(calls[i], rounds));
}

bool is_same_sequence(const Profile& left, const Profile& right) {
  return std::ranges::equal(
      left.operators, right.operators,
      [](const OperatorTime& a, const OperatorTime& b) { return a.kind == b.kind && a.layer == b.layer; });
}

/// Rows by name, in the order of their first mention.
class Rows {
 public:
  explicit Rows(std::size_t models) : models_(models) {}

  void add(const std::string& name, std::size_t model, double seconds) {
    const auto [place, is_new] = places_.try_emplace(name, rows_.size());
    if (is_new) rows_.push_back({name, std::vector<std::size_t>(models_), std::vector<double>(models_)});
    ProfileRow& row = rows_[place->second];
    ++row.counts[model];
    row.seconds[model] += seconds;
  }
  [[nodiscard]] std::vector<ProfileRow> take() { return std::move(rows_); }

 private:
  std::size_t models_;
  std::vector<ProfileRow> rows_{};
  std::map<std::string, std::size_t> places_{};
};

/// The layer of each operator, with underscores; none of conversions. `skipped`: letters of each name.
std::vector<std::string> layers_of(const Profile& profile, std::size_t skipped) {
  std::vector<std::string> layers;
  for (const OperatorTime& time : profile.operators) {
    const bool has_none = time.layer.size() < skipped || is_conversion(time.kind);
    layers.push_back(has_none ? "" : attribute_name(time.layer.substr(skipped)));
  }
  return layers;
}

/// The length of the names of containers that all layers lie in: 2 for "m", "m.conv" and "m.block.linear".
std::size_t common_containers(const Profile& profile) {
  std::set<std::string_view> all;
  for (const OperatorTime& time : profile.operators) all.insert(time.layer);
  std::set<std::string_view> layers = all;
  std::erase_if(layers, [&](std::string_view layer) {
    const std::string inside = std::string(layer) + '.';
    return layer.empty() ||
           std::ranges::any_of(all, [&](std::string_view other) { return other.starts_with(inside); });
  });
  if (layers.empty()) return 0;
  std::string_view common = *layers.begin();
  for (const std::string_view layer : layers) {
    common =
        common.substr(0, static_cast<std::size_t>(std::ranges::mismatch(common, layer).in1 - common.begin()));
    common = common.substr(0, common.rfind('.') + 1);
  }
  return common.size();
}

using Layers = std::vector<std::vector<std::string>>;

std::set<std::string> in_all(const Layers& layers) {
  std::set<std::string> common(layers.front().begin(), layers.front().end());
  for (const std::vector<std::string>& others : layers)
    std::erase_if(common,
                  [&](const std::string& layer) { return std::ranges::find(others, layer) == others.end(); });
  common.erase("");
  return common;
}

/// The layers of each model's operators, by names that models have in common: a model may be wrapped in
/// another module.
Layers comparable_layers(const std::vector<Profile>& profiles) {
  Layers layers;
  Layers inner;
  for (const Profile& profile : profiles) {
    layers.push_back(layers_of(profile, 0));
    inner.push_back(layers_of(profile, common_containers(profile)));
  }
  return in_all(layers).empty() ? inner : layers;
}

/// Names as the first model has them, which knows where the dots are.
std::map<std::string, std::string> names_of_layers(const Profile& profile,
                                                   const std::vector<std::string>& layers) {
  std::map<std::string, std::string> names;
  for (std::size_t i = 0; i < layers.size(); ++i) names.emplace(layers[i], profile.operators[i].layer);
  return names;
}

double seconds_between(const Profile& profile) {
  double seconds = profile.seconds;
  for (const OperatorTime& time : profile.operators) seconds -= time.seconds;
  return std::max(0.0, seconds);
}

std::vector<Profile> all_with_steps(const std::vector<Profile>& profiles) {
  std::vector<Profile> all;
  for (const Profile& profile : profiles) all.push_back(with_steps(profile));
  return all;
}

ProfileRow time_between(const std::vector<Profile>& profiles) {
  ProfileRow row{.name = std::string(kBetween), .counts = std::vector<std::size_t>(profiles.size())};
  for (const Profile& profile : profiles) row.seconds.push_back(seconds_between(profile));
  return row;
}

}  // namespace

Profile profile(const torch::jit::Module& module, at::QEngine engine, const Sample& sample,
                std::size_t rounds, const torch::jit::Module* unfrozen) {
  constexpr std::size_t kWarmUp = 4;  // LibTorch specialises a model in its first runs
  const c10::InferenceMode no_gradients;
  detail::LayerNames layers(unfrozen != nullptr ? *unfrozen : module);
  const torchscript::KeptState state(module);
  std::vector<Profile> runs;
  for (std::size_t round = 0; round < kWarmUp + rounds; ++round) {
    state.begin();
    Profile run = profile_of_run(module, engine, sample, layers);
    if (round >= kWarmUp) runs.push_back(std::move(run));
  }
  Profile result = median_of(runs);
  const bool has_programs =
      std::ranges::any_of(result.operators, [](const OperatorTime& time) { return is_program(time.kind); });
  state.begin();
  if (has_programs) look_into_programs(result, program_calls(module, engine, sample), rounds);
  return result;
}

Profile median_of(const std::vector<Profile>& runs) {
  std::vector<const Profile*> alike;
  for (const Profile& run : runs) {
    if (is_same_sequence(run, runs.back())) alike.push_back(&run);
  }
  const auto median_over = [&](auto&& member) {
    std::vector<double> values;
    for (const Profile* run : alike) values.push_back(member(*run));
    return median(std::move(values));
  };
  Profile result = runs.back();
  result.seconds = median_over(seconds_between);
  for (std::size_t i = 0; i < result.operators.size(); ++i) {
    result.operators[i].start = median_over([&](const Profile& run) { return run.operators[i].start; });
    result.operators[i].seconds = median_over([&](const Profile& run) { return run.operators[i].seconds; });
    result.seconds += result.operators[i].seconds;
  }
  return result;
}

bool is_conversion(std::string_view kind) {
  constexpr std::array<std::string_view, 13> kKinds{"aten::quantize_per_tensor",
                                                    "aten::quantize_per_tensor_dynamic",
                                                    "aten::quantize_per_channel",
                                                    "aten::dequantize",
                                                    "aten::int_repr",
                                                    "aten::_make_per_tensor_quantized_tensor",
                                                    "aten::to",
                                                    "aten::_to_copy",
                                                    "aten::to_mkldnn",
                                                    "aten::to_dense",
                                                    "aten::type_as",
                                                    "aten::_autocast_to_reduced_precision",
                                                    "tsq::convert"};
  return std::ranges::find(kKinds, kind) != kKinds.end();
}

std::vector<ProfileRow> by_kind(const std::vector<Profile>& models) {
  const std::vector<Profile> profiles = all_with_steps(models);
  Rows rows(profiles.size());
  Rows conversions(profiles.size());
  for (std::size_t model = 0; model < profiles.size(); ++model) {
    for (const OperatorTime& time : profiles[model].operators)
      (is_conversion(time.kind) ? conversions : rows).add(time.kind, model, time.seconds);
  }
  const auto slowest = [](const ProfileRow& row) { return *std::ranges::max_element(row.seconds); };
  std::vector<ProfileRow> all;
  for (std::vector<ProfileRow> part : {rows.take(), conversions.take()}) {
    std::ranges::stable_sort(part, std::greater<>(), slowest);
    all.insert(all.end(), part.begin(), part.end());
  }
  all.push_back(time_between(profiles));
  return all;
}

std::vector<ProfileRow> by_layer(const std::vector<Profile>& models) {
  const std::vector<Profile> profiles = all_with_steps(models);
  const Layers layers = comparable_layers(profiles);
  const std::set<std::string> common = in_all(layers);
  const std::map<std::string, std::string> names = names_of_layers(profiles.front(), layers.front());
  Rows rows(profiles.size());
  for (std::size_t model = 0; model < profiles.size(); ++model) {
    std::string layer(kBefore);
    const std::vector<OperatorTime>& operators = profiles[model].operators;
    for (std::size_t i = 0; i < operators.size(); ++i) {
      if (is_conversion(operators[i].kind)) continue;
      if (common.contains(layers[model][i])) layer = names.at(layers[model][i]);
      rows.add(layer, model, operators[i].seconds);
    }
  }
  std::vector<ProfileRow> all = rows.take();
  Rows conversions(profiles.size());
  for (std::size_t model = 0; model < profiles.size(); ++model) {
    for (const OperatorTime& time : profiles[model].operators) {
      if (is_conversion(time.kind)) conversions.add(std::string(kConversions), model, time.seconds);
    }
  }
  for (ProfileRow& row : conversions.take()) all.push_back(std::move(row));
  all.push_back(time_between(profiles));
  return all;
}

std::vector<std::string> layers_without_row(const std::vector<Profile>& models) {
  const std::vector<Profile> profiles = all_with_steps(models);
  const Layers layers = comparable_layers(profiles);
  const std::set<std::string> common = in_all(layers);
  std::vector<std::string> found;
  std::set<std::string> seen = common;
  for (std::size_t model = 0; model < profiles.size(); ++model) {
    for (std::size_t i = 0; i < layers[model].size(); ++i) {
      if (!layers[model][i].empty() && seen.insert(layers[model][i]).second)
        found.push_back(profiles[model].operators[i].layer);
    }
  }
  return found;
}

void to_json(json& value, const OperatorTime& time) {
  value = {{"kind", time.kind}, {"layer", time.layer}, {"start", time.start}, {"seconds", time.seconds}};
  if (!time.kernel.empty()) value.update({{"kernel", time.kernel}, {"shape", time.shape}});
  if (!time.steps.empty()) value["steps"] = time.steps;
}

void from_json(const json& value, OperatorTime& time) {
  time = {.kind = value.at("kind"),
          .layer = value.at("layer"),
          .kernel = value.value("kernel", ""),
          .shape = value.value("shape", ""),
          .start = value.at("start"),
          .seconds = value.at("seconds")};
  if (value.contains("steps")) time.steps = value.at("steps").get<std::vector<OperatorTime>>();
}

json to_json(const Profile& profile) {
  return {{"seconds", profile.seconds}, {"operators", profile.operators}};
}

Profile profile_from(const json& value) {
  return {.seconds = value.at("seconds"),
          .operators = value.at("operators").get<std::vector<OperatorTime>>()};
}

json chrome_trace(const std::vector<std::string>& names, const std::vector<Profile>& models) {
  constexpr double kMicroseconds = 1e6;
  const std::vector<Profile> profiles = all_with_steps(models);
  json events = json::array();
  for (std::size_t model = 0; model < profiles.size(); ++model) {
    events.push_back({{"ph", "M"},
                      {"name", "process_name"},
                      {"pid", model},
                      {"tid", 0},
                      {"args", {{"name", names[model]}}}});
    for (const OperatorTime& time : profiles[model].operators)
      events.push_back({{"ph", "X"},
                        {"name", time.kind},
                        {"cat", is_conversion(time.kind) ? "conversion" : "operator"},
                        {"pid", model},
                        {"tid", 0},
                        {"ts", kMicroseconds * time.start},
                        {"dur", kMicroseconds * time.seconds},
                        {"args", {{"layer", time.layer}, {"kernel", time.kernel}, {"shape", time.shape}}}});
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
}

}  // namespace tsq::bench
