#pragma once

#include <string>
#include <string_view>

#include "ir/placement.h"

/// What the report says of operators that are not in int8.
namespace tsq::ir {

struct Explanation {
  std::string reason{};  ///< Decision::reason
  std::string remedy{};  ///< Decision::remedy
};

/// The sentences of a reason that says the same of each operator but for a name, `detail`. Of others,
/// `detail` is the sentence.
[[nodiscard]] Explanation explanation_of(Reason reason, std::string_view detail = {});

/// The sentence for an operator that is placed as Reference.
[[nodiscard]] std::string between_roundings(std::string_view why);

}  // namespace tsq::ir
