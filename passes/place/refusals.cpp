#include "passes/place/refusals.h"

#include "match/dtype_check.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

std::optional<kernels::Refusal> refusal_of_all(const std::vector<kernels::Choice>& choices) {
  std::optional<kernels::Refusal> first;
  for (const kernels::Choice& choice : choices) {
    if (!is_in_int8(choice.placement)) continue;
    if (!choice.refusal) return std::nullopt;
    if (!first) first = choice.refusal;
  }
  return first;
}

}  // namespace

Refusals::Refusals(const ir::Model& model, const PassContext& context)
    : model_(model), context_(context), catalogue_(context.target, model, context.lowering_rows) {}

std::optional<kernels::Refusal> Refusals::of(const ir::Node* op) {
  const QConfig* qconfig = ir::observed_qconfig(model_, op);
  const bool reads_bytes = qconfig != nullptr && match::is_static(*qconfig);
  if (!reads_bytes || !is_in_int8(ir::placement_of(model_, op))) return std::nullopt;
  const auto refusal = refusal_of_all(kernels::engine_choices(context_.target, model_, op));
  // To ask what programs have takes longer.
  return refusal ? refusal_of_all(catalogue_.choices(op)) : std::nullopt;
}

}  // namespace tsq::passes
