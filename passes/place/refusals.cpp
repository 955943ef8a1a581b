#include "passes/place/refusals.h"

#include <algorithm>

#include "passes/place/rounding.h"

namespace tsq::passes {
Refusals::Refusals(const ir::Model& model, const PassContext& context)
    : model_(model), context_(context), catalogue_(context.target, model, context.lowering_rows) {}

std::optional<kernels::Refusal> Refusals::of(const ir::Node* op) {
  const QConfig* qconfig = ir::observed_qconfig(model_, op);
  if (qconfig == nullptr || !is_in_int8(ir::placement_of(model_, op))) return std::nullopt;
  const auto is_meant = [&](const kernels::Choice& choice) { return kernels::suits(choice, *qconfig); };
  const auto is_taken = [&](const kernels::Choice& choice) { return is_meant(choice) && !choice.refusal; };
  const std::vector<kernels::Choice> of_engine = kernels::engine_choices(context_.target, model_, op);
  const auto refused = std::ranges::find_if(of_engine, is_meant);
  if (refused == of_engine.end() || std::ranges::any_of(of_engine, is_taken)) return std::nullopt;
  // To ask what programs have takes longer.
  if (std::ranges::any_of(catalogue_.other_choices(op), is_taken)) return std::nullopt;
  return refused->refusal;
}

}  // namespace tsq::passes
