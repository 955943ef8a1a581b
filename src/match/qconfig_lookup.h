#pragma once

#include <tsq/qconfig_mapping.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/model.h"

namespace tsq::match {

/// What the look-up asks for each node, in graph order. Observers and constants are left out.
std::vector<std::pair<const ir::Node*, QConfigQuery>> qconfig_queries(const ir::Model& model);

/// The QConfig of every operator, and the level of the mapping that gave it (B-04 … B-16). Observers and
/// constants have none. Source: torch/ao/quantization/fx/qconfig_mapping_utils.py,
/// _generate_node_name_to_qconfig.
std::unordered_map<const ir::Node*, QConfigDecision> find_qconfigs(const ir::Model& model,
                                                                   const QConfigMapping& mapping);

}  // namespace tsq::match
