#pragma once

#include <tsq/plan.h>
#include <tsq/recipe_options.h>

#include <string>

namespace tsq {

/// An engine of LibTorch, and what runs the model.
struct Target {
  std::string engine{};  ///< "x86"
  LoweringTarget runtime{LoweringTarget::Stock};

  bool operator==(const Target&) const = default;
};
/// "--backend x86 --target fused".
std::string to_string(const Target& target);

/// What a model is predicted to take for a target.
struct TargetPrediction {
  Target target{};
  PlanPrediction prediction{};
};

}  // namespace tsq
