#pragma once

#include <tsq/plan.h>

#include <string>

namespace tsq::cli {

/// A plan as a table of operators, and the values that are not rounded for each of their readers.
std::string plan_text(const Plan& plan);

/// "plan\n  57 operators: 52 int8, 3 float, 2 reference\n  …".
std::string summary_text(const Plan& plan);

}  // namespace tsq::cli
