#include "backends/choices/rounding_times.h"

#include "backends/kernels/node_work.h"
#include "ir/analysis.h"

namespace tsq::kernels {

RoundingTimes::RoundingTimes(const Target& target, const ir::Model& model)
    : target_(target), model_(model), profile_(profile_of(target)) {}

double RoundingTimes::quantize(const ir::Value* value) const {
  const bool is_in_program = target_.runtime == LoweringTarget::Fused;
  return of(is_in_program ? Kernel{.name = "quantize", .engine = "fused"}
                          : Kernel{.name = "aten::quantize_per_tensor"},
            value);
}

double RoundingTimes::dequantize(const ir::Value* value) const {
  const bool is_in_program = target_.runtime == LoweringTarget::Fused;
  return of(is_in_program ? Kernel{.name = "dequantize", .engine = "fused"}
                          : Kernel{.name = "aten::dequantize", .engine = target_.engine},
            value);
}

double RoundingTimes::codes(const Choice& choice, const ir::Node* op) const {
  const bool reads_codes = choice.form == LoweringForm::FloatOutput && choice.reads == Form::Bytes;
  const auto operands = ir::operands(op);
  if (!reads_codes || operands.empty()) return 0;
  return of({.name = "aten::int_repr", .engine = target_.engine}, operands.front());
}

double RoundingTimes::of(const Kernel& kernel, const ir::Value* value) const {
  const auto work = work_of_rounding(model_, value);
  return work ? nanoseconds(*profile_, kernel, *work).value_or(0) : 0;
}

}  // namespace tsq::kernels
