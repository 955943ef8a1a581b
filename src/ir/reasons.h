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

/// The note of an operator that no sample reached and whose range is found when it runs (kRangeWhenRun).
/// Empty: it is in forward.
[[nodiscard]] std::string range_found_when_run(std::string_view method);

/// The sentence for an operator that is placed as Reference.
[[nodiscard]] std::string between_roundings(std::string_view why);
/// The sentence where the roundings around the operator are gone.
[[nodiscard]] std::string without_roundings(std::string_view sentence);

}  // namespace tsq::ir
