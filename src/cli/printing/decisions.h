#pragma once

#include <tsq/decisions.h>
#include <tsq/trial.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/process/options.h"

namespace tsq::cli {

/// `--decisions`, which may be given several times.
OptionRow decisions_option(std::vector<std::string>& values);
/// What it says. Throws Error(BadConfig).
std::vector<NamedDecisions> named_decisions(const std::vector<std::string>& values);

/// Lines on the decisions of outputs; outputs with the same words share one.
std::string decisions_text(const std::vector<std::pair<std::string, JudgedDecisions>>& outputs);
std::string decisions_text(const Trial& trial);

}  // namespace tsq::cli
