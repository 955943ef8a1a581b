#pragma once

#include <optional>

#include "ir/graph_module.h"

namespace tsq::modules {

/// Whether an operator is a float convolution that slides filters over one channel of one dimension, as an
/// STFT is spelt.
bool reads_one_channel(const ir::GraphModule& gm, const ir::Node* node);

/// The parameters of such a convolution that does not pad its input: the weight is [filters, 1, length].
/// Empty for all else.
std::optional<ir::Weighted> filter_bank(const ir::GraphModule& gm, const ir::Node* node);

}  // namespace tsq::modules
