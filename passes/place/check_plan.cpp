// A plan that was given may ask for what no kernel does.

#include <fmt/format.h>
#include <tsq/error.h>

#include "ir/placement.h"
#include "passes/place/passes.h"
#include "passes/place/plan_names.h"
#include "passes/place/refusals.h"

namespace tsq::passes {

bool check_plan(Model& model, const PassContext& context) {
  Refusals refusals(model, context);
  const std::vector<Node*> operators = planned_operators(model);
  const std::vector<std::string> names = operator_names(model);
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const auto refusal = refusals.of(operators[i]);
    if (!refusal) continue;
    throw Error(ErrorCode::BadConfig,
                fmt::format("operator '{}' cannot be planned as {}: {}", names[i],
                            to_string(ir::placement_of(model, operators[i])), refusal->why),
                "plan it as 'reference' or as 'float'");
  }
  return false;
}

}  // namespace tsq::passes
