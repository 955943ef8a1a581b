#pragma once

#include <functional>
#include <optional>

#include "trial/candidates.h"
#include "trial/referee.h"

namespace tsq::detail {

/// What a model is that was made and tried; `made` is empty where making it failed.
struct Attempt {
  std::optional<Made> made{};
  Trial trial{};
};

/// Makes a model and tries it. What cannot be made has a fault; throws what is the user's to mend.
Attempt attempt(const Referee& referee, const std::function<Made()>& make);

/// Throws Error(Unsupported) that says what the fault of an attempt is.
[[noreturn]] void refuse(const Attempt& attempt);

}  // namespace tsq::detail
