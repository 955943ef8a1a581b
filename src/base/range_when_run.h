#pragma once

#include <string_view>

namespace tsq {

/// What notes of operators begin with whose range is found when they run.
inline constexpr std::string_view kRangeWhenRun = "the range of its input is found when it runs: ";

}  // namespace tsq
