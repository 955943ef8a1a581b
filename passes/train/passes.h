#pragma once

#include "passes/context/pass_context.h"

/// What becomes of a model that has been trained.
namespace tsq::passes {

/// Refuses a model whose training has left NaN or infinity in a range, a weight or a statistic (QT-59).
/// Changes nothing. Throws Error(BadModel) that says where.
bool check_trained(ir::Model& model, const PassContext& context);

/// The trained graph as prepare would have it: in evaluation mode, batch norms folded into their layers,
/// layers of float types whose weights have the scale and zero point that training found (QT-80 to QT-82).
///   conv = qat.ConvBnReLU2d(x)   →   conv = ConvReLU2d(x)
/// In recipe fx each of Model::weight_fake_quants looks at its folded weight once more, as convert_fx has it
/// do, also for a layer that is called several times (QT-85); what it finds stays in a copy. So do the
/// observers of weights of functions: their entries get copies. In recipe best all values keep the grid on
/// which they were trained (QT-100 to QT-103).
bool finish_training(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
