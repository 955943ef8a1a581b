#include "cli/printing/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/text_table.h"

namespace tsq::cli {
namespace {

std::string operators_text(const Plan& plan) {
  std::vector<std::vector<std::string>> rows{{"operator", "placement", "why"}};
  for (const PlannedOperator& each : plan.operators) {
    const std::string why =
        each.reason == Reason::LeftOut ? each.detail : std::string(to_string(each.reason));
    rows.push_back({each.node, std::string(to_string(each.placement)), why});
  }
  return text_table(rows, {0, 1, 2});
}

std::string rounded_text(const Plan& plan) {
  const auto rounded = std::ranges::count_if(plan.values, &PlannedValue::is_rounded);
  return fmt::format("{} of {} observed values are rounded\n", rounded, plan.values.size());
}

std::string values_text(const Plan& plan) {
  std::string text = rounded_text(plan);
  for (const PlannedValue& value : plan.values) {
    if (!value.is_rounded) text += fmt::format("  {} is not rounded\n", value.value);
    if (!value.exact_for.empty())
      text += fmt::format("  {} is not rounded for {}\n", value.value, fmt::join(value.exact_for, ", "));
  }
  return text;
}

}  // namespace

std::string summary_text(const Plan& plan) {
  std::vector<std::string> counts;
  for (const Placement each : {Placement::Int8, Placement::Int8FloatOut, Placement::Float,
                               Placement::Reference, Placement::Written}) {
    const auto count = std::ranges::count(plan.operators, each, &PlannedOperator::placement);
    if (count > 0) counts.push_back(fmt::format("{} {}", count, to_string(each)));
  }
  return fmt::format("plan\n  {} operators: {}\n  {}", plan.operators.size(), fmt::join(counts, ", "),
                     rounded_text(plan));
}

std::string plan_text(const Plan& plan) {
  std::string text = fmt::format("\nplan for {}, {}\n{}{}", plan.backend, plan.target, operators_text(plan),
                                 values_text(plan));
  for (const auto& [path, child] : plan.standalone)
    text += fmt::format("\nstandalone module '{}'{}", path, plan_text(child));
  return text;
}

}  // namespace tsq::cli
