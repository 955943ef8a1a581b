#pragma once

#include "backends/kernels/float_output_kernels.h"
#include "backends/kernels/target.h"
#include "ir/model.h"

namespace tsq::kernels {

/// The engine's kernel that returns a layer's output in float, for a convolution or linear layer,
/// module or function, float or reference; null where there is none.
const kernels::FloatOutputKernel* float_output_kernel_of(const Target& target, const ir::Model& model,
                                                         const ir::Node* layer);

/// Whether an operator that alone reads the output of such a layer takes no longer in float than on bytes
/// where the layer is large enough: whether calibration is to tell by its size.
bool may_stay_float_after(const Target& target, const ir::Model& model, const ir::Node* layer,
                          const ir::Node* activation);
/// Whether it takes no longer at the sizes that calibration saw. Both then round once. Null: whether the
/// layer takes no longer when float operators of any kind read what it returns, not rounded.
bool stays_float_after(const Target& target, const ir::Model& model, const ir::Node* layer,
                       const ir::Node* activation);

/// Whether the layer's kernel does the activation too, and rounds its output, where the layer is large
/// enough: nothing is float in between.
bool may_be_done_by_kernel(const Target& target, const ir::Model& model, const ir::Node* layer,
                           const ir::Node* activation);
/// Whether it does at the sizes that calibration saw.
bool is_done_by_kernel(const Target& target, const ir::Model& model, const ir::Node* layer,
                       const ir::Node* activation);

}  // namespace tsq::kernels
