#include "passes/place/refusals.h"

#include <algorithm>

#include "match/dtype_check.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

bool is_taken(const kernels::Choice& choice) { return is_in_int8(choice.placement) && !choice.refusal; }

}  // namespace

Refusals::Refusals(const ir::Model& model, const PassContext& context)
    : model_(model), context_(context), catalogue_(context.target, model, context.lowering_rows) {}

std::optional<kernels::Refusal> Refusals::of(const ir::Node* op) {
  const QConfig* qconfig = ir::observed_qconfig(model_, op);
  const bool reads_bytes = qconfig != nullptr && match::is_static(*qconfig);
  if (!reads_bytes || !is_in_int8(ir::placement_of(model_, op))) return std::nullopt;
  const std::vector<kernels::Choice> of_engine = kernels::engine_choices(context_.target, model_, op);
  const auto refused = std::ranges::find_if(of_engine, &ir::is_in_int8, &kernels::Choice::placement);
  if (refused == of_engine.end() || std::ranges::any_of(of_engine, is_taken)) return std::nullopt;
  // To ask what programs have takes longer.
  if (std::ranges::any_of(catalogue_.other_choices(op), is_taken)) return std::nullopt;
  return refused->refusal;
}

}  // namespace tsq::passes
