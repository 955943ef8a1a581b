#pragma once

#include <tsq/backend_config.h>

#include "ir/graph_module.h"

namespace tsq::passes {

/// fuse() for a model that will be trained (QT-05): batch norms stay operators of their fused module, nothing
/// is folded. A batch norm without factors or statistics, one of another width, and fused modules that have
/// no training form stay by themselves, where FX stops the whole model (QT-07, QT-08, QT-20).
///   bn = BatchNorm2d(conv); relu = ReLU(bn)   →   conv = ConvBnReLU2d(x)
void fuse_for_training(ir::GraphModule& gm, const BackendConfig& backend);

}  // namespace tsq::passes
