#pragma once

#include <optional>

#include "ir/graph_module.h"

namespace tsq::modules {

/// The parameters of a float convolution that slides filters over one channel without padding it, as an STFT
/// is spelt: its weight is [filters, 1, length]. Empty for all else.
std::optional<ir::Weighted> filter_bank(const ir::GraphModule& gm, const ir::Node* node);

}  // namespace tsq::modules
