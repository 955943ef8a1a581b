#include "bench/program_times.h"

#include <fmt/format.h>
#include <tsq/bench/statistics.h>
#include <tsq/runtime_library.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tsq::bench {
namespace {

using nlohmann::json;

/// The steps of the last of `calls` calls.
json profile_of_program(const ProgramCall& call, std::int64_t calls) {
  std::vector<c10::IValue> arguments = call;
  arguments.emplace_back(calls);
  const auto& type = call.front().type()->expectRef<c10::ClassType>();
  return json::parse(type.getMethod("profile")(std::move(arguments)).toStringRef());
}

}  // namespace

bool is_program(std::string_view kind) { return kind == kProgramOperator; }

std::vector<OperatorTime> times_within(const ProgramCall& call, std::size_t rounds) {
  constexpr double kSecond = 1e6;  // in microseconds
  std::vector<std::vector<double>> times;
  json steps;
  for (std::size_t round = 0; round < std::max<std::size_t>(rounds, 1); ++round) {
    steps = profile_of_program(call, round == 0 ? 2 : 1);
    times.resize(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      times[i].push_back(steps[i].at("microseconds").get<double>() / kSecond);
  }
  std::vector<OperatorTime> result;
  double start = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const json& step = steps[i];
    result.push_back({.kind = fmt::format("tsq::{}", step.at("kind").get<std::string>()),
                      .layer = step.at("name"),
                      .kernel = step.at("implementation"),
                      .shape = step.at("shape"),
                      .start = start,
                      .seconds = median(std::move(times[i]))});
    start += result.back().seconds;
  }
  return result;
}

void add_steps(OperatorTime& program, std::vector<OperatorTime> steps) {
  double whole = 0;
  for (const OperatorTime& step : steps) whole += step.seconds;
  const double factor = whole > program.seconds ? program.seconds / whole : 1.0;
  for (OperatorTime& step : steps) {
    step.start = program.start + factor * step.start;
    step.seconds *= factor;
  }
  program.steps = std::move(steps);
}

Profile with_steps(const Profile& profile) {
  Profile result{.seconds = profile.seconds, .operators = {}};
  for (const OperatorTime& time : profile.operators) {
    if (time.steps.empty()) {
      result.operators.push_back(time);
    } else {
      result.operators.insert(result.operators.end(), time.steps.begin(), time.steps.end());
    }
  }
  return result;
}

}  // namespace tsq::bench
