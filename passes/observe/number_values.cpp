// Values get numbers, by which what calibration sees of them is kept.
//   conv(x)   →   conv(x), of value 7

#include "ir/value_numbers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {

bool number_values(Model& model, const PassContext& /*context*/) { return ir::number_values(*model.graph); }

}  // namespace tsq::passes
