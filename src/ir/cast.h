#pragma once

#include <string_view>

namespace tsq::ir {

/// The type of the calls by which values change their dtype at the model's inputs and outputs. Its only
/// constant names the dtypes that they stand for.
inline constexpr std::string_view kCastType = "tsq.Cast";

}  // namespace tsq::ir
