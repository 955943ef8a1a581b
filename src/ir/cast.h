#pragma once

#include <string_view>

namespace tsq::ir {

/// The type of the calls by which values change their dtype at the model's inputs and outputs. Its first
/// constant names the dtypes that they stand for, its second those among them in which the model computes
/// whatever it is given: none where its parameters are cast to the dtype of its input.
inline constexpr std::string_view kCastType = "tsq.Cast";

}  // namespace tsq::ir
