#pragma once

#include <c10/core/ScalarType.h>
#include <tsq/recipe_options.h>

#include <map>
#include <optional>
#include <string>

namespace tsq {

/// How a reference model is lowered.
struct LoweringOptions {
  /// Another target than the one that the model was prepared for, and its layers placed for; none: that one.
  std::optional<LoweringTarget> target{};
  /// BFloat16: operators that stay float compute in it where that pays; inputs and outputs of the model keep
  /// their dtype.
  c10::ScalarType float_dtype{c10::ScalarType::Float};
  /// Operators (Decision::node) that get no kernel and stay as the reference has them, and why.
  std::map<std::string, std::string> kept_reference{};
};

}  // namespace tsq
