#pragma once

#include <optional>

#include "backends/kernels/kernel_work.h"
#include "ir/model.h"

namespace tsq::kernels {

/// The work of an operator of the flow's graph, in float or in int8: both have the same sizes. They are the
/// largest that calibration has seen. None where it has not seen the operator's values, or values of several
/// ranks.
[[nodiscard]] std::optional<KernelWork> work_of_node(const ir::Model& model, const ir::Node* node);
/// The work of rounding a value, or of making floats of its bytes; likewise.
[[nodiscard]] std::optional<KernelWork> work_of_rounding(const ir::Model& model, const ir::Value* value);

}  // namespace tsq::kernels
