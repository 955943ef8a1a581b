#pragma once

#include <tsq/bench/profile.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tsq::cli {

/// Tables of time by kind of operator and by layer, all models side by side, and of what each fused program
/// does, step by step.
std::string profile_text(const std::vector<std::string>& names, const std::vector<bench::Profile>& profiles);

/// The same, and every operator of each model with the steps of its program.
nlohmann::json profile_json(const std::vector<std::string>& names,
                            const std::vector<bench::Profile>& profiles);

}  // namespace tsq::cli
