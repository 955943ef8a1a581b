#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "pipeline/float_layers.h"

namespace tsq::detail {

/// Layers by what they cost the output when they alone are int8.
struct Ranking {
  std::vector<std::size_t> order{};  ///< indices of layers, the most costly first
  std::vector<double> alone_db{};    ///< by layer
};

/// SQNR of the model's outputs with these nodes in float.
double sqnr_with_float_nodes(const Calibrated& model, const BackendConfig& backend,
                             const FloatOutputs& wanted, const LoweringOptions& lowering,
                             std::map<std::string, std::string> nodes);

/// `done` is called after each layer. Equal layers stay in graph order.
Ranking rank_layers(const Calibrated& model, const BackendConfig& backend, const FloatOutputs& wanted,
                    const LoweringOptions& lowering, const std::function<void()>& done);

}  // namespace tsq::detail
