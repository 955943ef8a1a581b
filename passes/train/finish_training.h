#pragma once

#include <torch/csrc/jit/api/module.h>

#include <map>
#include <string>
#include <vector>

#include "ir/graph_module.h"

namespace tsq::passes {

/// The trained graph as prepare would have it: in evaluation mode, batch norms folded into their layers,
/// layers of float types whose weights have the scale and zero point that training found (QT-80 to QT-82).
///   conv = qat.ConvBnReLU2d(x)   →   conv = ConvReLU2d(x)
/// `weight_fake_quants` by the path of their layer. Each looks at its folded weight once more, as convert_fx
/// has it do, also for a layer that is called several times (QT-85); what it finds stays in a copy. So do the
/// observers of weights of functions; those that did so are replaced in `observers` by copies.
void finish_training(ir::GraphModule& gm, const std::map<std::string, torch::jit::Module>& weight_fake_quants,
                     std::vector<torch::jit::Module>& observers);

}  // namespace tsq::passes
