#pragma once

#include <optional>
#include <vector>

#include "ir/model.h"

namespace tsq::passes {

/// What multiplies maps by numbers made of their averages (squeeze and excitation), in a calibrated graph.
struct Gate {
  ir::Node* product{};
  ir::Value* gate{};               ///< what the product reads of it
  ir::Value* gated{};              ///< the maps, as the product reads them
  const ir::Node* average{};       ///< of whole maps
  std::vector<ir::Node*> steps{};  ///< layers, activations and moves between average and gate, in this order
};

/// The gate that a node multiplies by, rounded or not; empty for other nodes.
std::optional<Gate> gate_of(const ir::Model& model, ir::Node* product);

/// Whether a node returns one value for each value of its input.
bool is_activation(const ir::Model& model, const ir::Node* node);

}  // namespace tsq::passes
