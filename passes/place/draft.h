#pragma once

#include <tsq/plan.h>

#include <memory>
#include <vector>

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// A copy of a calibrated model, on which rules write placements and take observers away as if it were the
/// model. What they have decided is read off it as a plan.
class Draft {
 public:
  /// The model must live as long as the draft, unchanged.
  explicit Draft(const ir::Model& model);

  ir::Model& model() noexcept { return draft_; }
  /// What was decided, in names of the model.
  [[nodiscard]] Plan plan(const PassContext& context) const;

 private:
  /// A node of the draft; empty once a rule has taken it away.
  using Drafted = std::shared_ptr<torch::jit::Wrap<ir::Node>>;
  struct Pair {
    const ir::Node* in_model{};
    Drafted in_draft{};
  };

  [[nodiscard]] PlannedOperator planned(const Pair& pair, std::string name) const;
  [[nodiscard]] std::vector<PlannedOperator> planned_operators() const;
  [[nodiscard]] std::vector<PlannedValue> planned_values(const std::vector<PlannedOperator>& operators) const;

  const ir::Model& model_;
  ir::Model draft_;
  std::vector<Pair> pairs_{};  ///< all nodes, and those that end blocks
};

/// Which table, target and recipe the plans of a context are for.
[[nodiscard]] Plan empty_plan(const PassContext& context);

}  // namespace tsq::passes
