#include "tuning/fitted_profile.h"

#include <fmt/format.h>
#include <tsq/bench/statistics.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "backends/kernels/machine_profile.h"
#include "backends/kernels/time_rows.h"
#include "tuning/fit.h"

namespace tsq::tuning {
namespace {

std::string kind_of(const MeasuredCall& call) {
  return kernels::name_of(kernels::time_rows(call.name, call.work).front(), call.engine);
}

/// Calls of one kind, on one number of threads.
struct CallsOfKind {
  std::span<const kernels::Feature> features{};
  std::vector<Equation> equations{};
  std::size_t without_time{0};  ///< other calls, which take none
};

/// Whether a feature takes a thousandth of any call.
bool counts(std::span<const Equation> equations, std::size_t feature, double coefficient) {
  constexpr double kLittle = 1e-3;
  return std::ranges::any_of(equations, [&](const Equation& equation) {
    return equation.features[feature] * coefficient > kLittle * equation.sum;
  });
}

/// For people who read the file; no measurement is more exact.
double in_four_digits(double number) { return std::stod(fmt::format("{:.4g}", number)); }

PredictionErrors summary_of(std::string kind, std::vector<double> errors) {
  std::ranges::sort(errors);
  constexpr double kNineOfTen = 0.9;
  return {.kind = std::move(kind),
          .calls = errors.size(),
          .median = bench::quantile(errors, 0.5),
          .most = bench::quantile(errors, kNineOfTen)};
}

}  // namespace

void fit(std::span<const MeasuredCall> calls, MachineProfile& profile) {
  std::map<std::pair<int, std::string>, CallsOfKind> kinds;
  for (const MeasuredCall& call : calls) {
    const kernels::TimeRow row = kernels::time_rows(call.name, call.work).front();
    CallsOfKind& kind = kinds[{call.threads, kernels::name_of(row, call.engine)}];
    kind.features = row.features;
    if (call.nanoseconds <= 0) {
      ++kind.without_time;
      continue;
    }
    kind.equations.push_back({.features = kernels::feature_values(row, call.work), .sum = call.nanoseconds});
  }
  for (const auto& [key, kind] : kinds) {
    // Fewer would say nothing. Most views of a program are no step.
    constexpr std::size_t kFewest = 4;
    const bool takes_time = kind.equations.size() > kind.without_time;
    if (kind.equations.size() + kind.without_time < kFewest) continue;
    if (!takes_time) profile.by_threads[key.first][key.second] = {};
    if (!takes_time) continue;
    const std::vector<double> coefficients = least_relative_errors(kind.equations);
    MachineProfile::Coefficients& written = profile.by_threads[key.first][key.second];
    written.clear();
    for (std::size_t i = 0; i < coefficients.size(); ++i) {
      if (counts(kind.equations, i, coefficients[i]))
        written[std::string(kind.features[i].name)] = in_four_digits(coefficients[i]);
    }
  }
}

ProfileErrors errors_of(const MachineProfile& profile, std::span<const MeasuredCall> calls) {
  ProfileErrors result;
  std::map<std::string, std::vector<double>> by_kind;
  std::vector<double> all;
  for (const MeasuredCall& call : calls) {
    if (call.nanoseconds <= 0) continue;
    const kernels::Kernel kernel{.name = call.name, .engine = call.engine, .threads = call.threads};
    const auto predicted = kernels::nanoseconds(profile, kernel, call.work);
    if (!predicted) continue;
    const double error = std::abs(*predicted / call.nanoseconds - 1);
    by_kind[kind_of(call)].push_back(error);
    all.push_back(error);
  }
  for (auto& [kind, errors] : by_kind) result.kinds.push_back(summary_of(kind, std::move(errors)));
  if (!all.empty()) result.all = summary_of("all", std::move(all));
  return result;
}

}  // namespace tsq::tuning
