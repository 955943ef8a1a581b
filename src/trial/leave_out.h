#pragma once

#include <tsq/left_float.h>
#include <tsq/trial.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trial/candidates.h"

namespace tsq::detail {

/// Parts of a model that cannot be in int8.
struct LeftOut {
  struct Fault {
    Indices parts{};     ///< one, or all where no single part is to blame
    std::string text{};  ///< what went wrong with them in int8
  };
  std::vector<Fault> faults{};

  /// Of all faults, sorted.
  [[nodiscard]] Indices parts() const;
  /// What was left float by each fault, where the parts are these layers.
  [[nodiscard]] std::vector<LeftFloat> changes(std::span<const QuantizedLayer> layers) const;
};

/// Finds the parts of a model, 0 to `count` - 1, without which it does not fail. `fault` is that of the model
/// with all parts in int8, `try_without` tries it with some in float. Each turn finds one part: among the
/// first k in int8, k the fewest that fail, the last; after a dozen, or where nothing helps, it is all of
/// them. The last call of `try_without` is for the parts that are returned.
LeftOut leave_out_failing(
    std::size_t count, TrialFault fault,
    const std::function<std::optional<TrialFault>(const Indices& in_float)>& try_without);

}  // namespace tsq::detail
