#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/figures.h"

namespace tsq::cli {

/// "bn1, bn2, relu, maxpool, …": the first four names.
std::string first_names(const std::vector<std::string>& names);

/// "2026-11-26T15:04:05Z".
std::string utc_now();

}  // namespace tsq::cli
