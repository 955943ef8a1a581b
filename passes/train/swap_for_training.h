#pragma once

#include <tsq/backend_config.h>
#include <tsq/qconfig_mapping.h>

#include <map>
#include <string>

#include "ir/graph_module.h"

namespace tsq::passes {

struct SwappedLayers {
  QConfigMapping mapping{};  ///< with the entries of float types for the training ones (QT-12)
  std::map<std::string, QConfig> qconfigs{};  ///< of the layers that were swapped, by path
};

/// Layers to which `mapping` gives a QConfig become the modules that their rows name for training, which
/// fake-quantize the weight (QT-09, QT-10).
/// Regular expressions and the order of calls choose no module, as in FX; they choose what is observed.
///   conv = ConvBnReLU2d(x)   →   conv = qat.ConvBnReLU2d(x)
SwappedLayers swap_for_training(ir::GraphModule& gm, const QConfigMapping& mapping,
                                const BackendConfig& backend);

}  // namespace tsq::passes
